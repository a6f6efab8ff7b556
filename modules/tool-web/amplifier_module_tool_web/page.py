"""What an answer is, and the part of its text that a model asked for."""

from __future__ import annotations

from typing import Final, NamedTuple

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
#: Types that are text, though their names do not say so.
_TEXT: Final = frozenset(
    f"application/{name}"
    for name in (
        *("json", "x-ndjson", "jsonlines", "xml", "yaml", "x-yaml", "toml", "sql", "graphql", "rtf", "x-tex"),
        *("javascript", "x-javascript", "ecmascript", "typescript", "x-sh", "x-httpd-php", "x-www-form-urlencoded"),
    )
)
#: What servers say when they do not know.
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})


def media_type(content_type: str) -> str:
    """Return the type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_binary_type(content_type: str) -> bool:
    """Return whether a content type is binary. An unknown or missing type may be text."""
    kind = media_type(content_type)
    if kind in _UNKNOWN or kind in _TEXT or kind.startswith("text/"):
        return False
    return not kind.endswith(("+json", "+xml", "+yaml", "+text"))


def is_html(content_type: str, text: str) -> bool:
    """Tell whether a text is a page: its type says so, or nothing is said and it begins like one."""
    kind = media_type(content_type)
    if kind not in _UNKNOWN:
        return kind in _HTML
    return text[:512].lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html"))


class Part(NamedTuple):
    """A part of a text: `offset`, `size` and `total` count bytes of its UTF-8 form, no character is cut."""

    text: str
    offset: int
    size: int
    total: int

    @property
    def is_last(self) -> bool:
        """Tell whether the text ends with this part."""
        return self.offset + self.size >= self.total


def part_of(text: str, offset: int, limit: int) -> Part:
    """Return `limit` bytes of a text from `offset` on; the next part begins at `offset + size`.

    An offset inside a character means the whole character, and a limit under one character gives one.
    """
    data = text.encode("utf-8", "replace")
    start = _boundary(data, min(offset, len(data)))
    end = _boundary(data, min(start + limit, len(data)))
    if end == start and start < len(data):
        end = start + 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
    return Part(data[start:end].decode("utf-8"), start, end - start, len(data))


def _boundary(data: bytes, place: int) -> int:
    """Return the start of the character that has a byte at this place."""
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place -= 1
    return place
