"""The text of an answer: its type, its characters, its text without tags, and the part that a model asked for."""

from __future__ import annotations

import codecs
import html
import re
from typing import Final

import httpx2

from amplifier_kit.named_tuple import NamedTuple

# --- types ---

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


# --- characters ---

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Where pages say it themselves: `<meta charset=…>`, `<meta … content="…; charset=…">`, `<?xml … encoding="…"?>`.
_INSIDE: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([a-z0-9._:-]{1,40})|<\?xml[^>]{0,100}?encoding\s*=\s*["']([a-z0-9._:-]{1,40})""",
    re.IGNORECASE,
)
#: The codecs that stand for characters on the web; Python has others, which would do something else entirely.
_KNOWN: Final = re.compile(
    r"utf-(8|8-sig|16|16-le|16-be|32|32-le|32-be)|ascii|iso8859-\d+|cp(125\d|437|85\d|866|874|932|936|949|950)"
    r"|koi8-[rtu]|gb2312|gbk|gb18030|hz|big5|big5hkscs|euc_(jp|kr|jis_2004|jisx0213)|shift_jis(_2004|x0213)?"
    r"|iso2022_(jp|kr)(_\w+)?|johab|tis-620|mac-(roman|cyrillic|greek|latin2|turkish|iceland)|ptcp154"
)
#: What browsers read these as: pages that say latin-1 mean Windows's superset of it.
_MEANT: Final = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}
_SAMPLE: Final = 32768
_HEAD: Final = 4096


def decode(data: bytes, content_type: str) -> str:
    """Return the text of a page; what does not fit its character set is shown as `\N{REPLACEMENT CHARACTER}`.

    A byte-order mark decides, then the server's header, then what the page says of itself, then whether it can be
    UTF-8, then a guess.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data.decode(name, "replace")
    declared = _in_header(content_type) or _in_page(data)
    if declared:
        return data.decode(declared, "replace")
    if _can_be_utf8(data):
        return data.decode("utf-8", "replace")
    return data.decode(_guessed(data[:_SAMPLE]), "replace")


def is_binary(data: bytes, content_type: str = "") -> bool:
    """Tell whether bytes cannot be text: there is a NUL, which only UTF-16 and UTF-32 have, marked or declared."""
    declared = _in_header(content_type) or ""
    if any(data.startswith(bom) for bom, _ in _BOMS[1:]) or declared.startswith(("utf-16", "utf-32")):
        return False
    return b"\0" in data[:_SAMPLE]


def _in_header(content_type: str) -> str | None:
    header = (b"Content-Type", content_type.encode("utf-8", "replace"))
    label = httpx2.Response(200, headers=[header]).charset_encoding
    return _codec(label) if label else None


def _in_page(data: bytes) -> str | None:
    match = _INSIDE.search(data[:_HEAD])
    name = _codec((match[1] or match[2]).decode("ascii")) if match else None
    # A declaration that is readable as ASCII is not in UTF-16 or UTF-32, whatever it says.
    return "utf-8" if name and name.startswith(("utf-16", "utf-32")) else name


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label.rstrip(".:")).name
    except (LookupError, ValueError):
        return None
    return _MEANT.get(name, name) if _KNOWN.fullmatch(name) else None


def _can_be_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _guessed(sample: bytes) -> str:
    import charset_normalizer

    best = charset_normalizer.from_bytes(sample).best()
    return (_codec(best.encoding) if best else None) or "cp1252"


# --- pages without their tags ---

#: Elements whose content is not shown to readers.
_HIDDEN: Final = frozenset({b"script", b"style", b"template", b"svg", b"iframe"})
#: Elements that do not end a line.
_INLINE: Final = frozenset(
    b"a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark nobr q s samp small span "
    b"strike strong sub sup time tt u var wbr".split()
)
#: The `<` of a tag, comment or declaration, and not of a formula.
_OPENING: Final = re.compile(rb"<(?=[a-zA-Z/!?])")
_NAME: Final = re.compile(rb"/?([a-zA-Z][a-zA-Z0-9]*)")
_BLANKS: Final = re.compile(r"[^\S\n]+")
_LINES: Final = re.compile(r"\n{3,}")


def plain_text(page: str) -> str:
    """Return the text of a page: blocks on lines of their own, entities as characters, scripts and styles left out.

    Takes time in proportion to the page and never fails: what is not closed ends with the page.
    """
    # Bytes, as lower() keeps their number and their places.
    source = page.encode("utf-8", "replace")
    lower = source.lower()
    parts: list[bytes] = []
    place = 0
    while (match := _OPENING.search(source, place)) is not None:
        parts.append(source[place : match.start()])
        place, mark = _after(lower, match.start())
        parts.append(mark)
        if place < 0:
            break
    else:
        parts.append(source[place:])
    return _tidy(b"".join(parts).decode("utf-8", "replace"))


def _after(lower: bytes, start: int) -> tuple[int, bytes]:
    """Return the place behind a tag (and what it hides), -1 for the end, and what stands for it in the text."""
    if lower.startswith(b"<!--", start):
        end = lower.find(b"-->", start + 4)
        return (end + 3 if end >= 0 else -1), b""
    end = lower.find(b">", start)
    if end < 0:
        return -1, b""
    match = _NAME.match(lower, start + 1)
    name = match[1] if match else b""
    if name in _HIDDEN and lower[start + 1 : start + 2] != b"/" and lower[end - 1 : end] != b"/":
        close = lower.find(b"</" + name, end)
        end = lower.find(b">", close) if close >= 0 else -1
        return (end + 1 if end >= 0 else -1), b"\n"
    return end + 1, b"" if name in _INLINE else b"\n"


def _tidy(text: str) -> str:
    try:
        text = html.unescape(text)
    except ValueError:
        pass  # a number of thousands of digits; the text is readable with its entities, too
    text = _BLANKS.sub(" ", text.replace("\r\n", "\n").replace("\0", ""))
    lines = (line.strip() for line in text.split("\n"))
    return _LINES.sub("\n\n", "\n".join(lines)).strip()


# --- parts ---


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
