"""The text of an HTML page without its tags, in one pass over it, whatever it is."""

from __future__ import annotations

import html
import re
from typing import Final

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
