"""Make text that can be shown of what a command wrote, which may be anything."""

from __future__ import annotations

import re
from typing import Final

#: Colours, cursor movements, titles: meant for a terminal that is not there.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REPLACEMENT: Final = "\ufffd"
#: From this share of bytes on that are no text, output is not shown at all.
_MOST_GARBAGE: Final = 0.3
_SAMPLE: Final = 8192
_SPACE: Final = re.compile(r"\s")
#: Where a long line is cut, if there is such a place: half a word could be half a secret, which nothing would mask.
_BETWEEN_WORDS: Final = re.compile(rb"[\s\"'`<>(){}\[\],;|]")
_LONGEST_WORD: Final = 1024


def readable(data: bytes) -> str:
    """Decode UTF-8 and take out what steers a terminal; bytes that are no text become U+FFFD."""
    text = data.decode("utf-8", "replace")
    return _CONTROLS.sub(_REPLACEMENT, _ESCAPES.sub("", text))


def is_binary(data: bytes) -> bool:
    """Tell whether bytes are so little of a text that nobody would want to read them as one."""
    sample = data[:_SAMPLE]
    if len(sample) < 8:
        return False
    text = readable(sample)
    return text.count(_REPLACEMENT) > _MOST_GARBAGE * len(text)


def cut_words(text: str, *, starts_inside: bool, ends_inside: bool) -> str:
    """Return a text without the words that may have been cut at its ends: nobody can tell half a secret."""
    if starts_inside and (first := _SPACE.search(text)):
        text = text[first.end() :]
    if ends_inside and text and not text[-1].isspace():
        text = text[: max(text.rfind(space) for space in " \t\n") + 1]
    return text


def cut_head(data: bytes) -> bytes:
    """Return the whole lines at the beginning, or the bytes up to the last character when lines are too long."""
    end = data.rfind(b"\n") + 1
    if end > len(data) // 2:
        return data[:end]
    if words := list(_BETWEEN_WORDS.finditer(data, max(len(data) // 2, len(data) - _LONGEST_WORD))):
        return data[: words[-1].end()]
    end = len(data)
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        if byte >= 0xC0 and back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4):
            end = len(data) - back
        break
    return data[:end]


def cut_tail(data: bytes) -> bytes:
    """Return the whole lines at the end, or the bytes from the first character on when lines are too long."""
    start = data.find(b"\n") + 1
    if 0 < start < len(data) - len(data) // 2:
        return data[start:]
    if word := _BETWEEN_WORDS.search(data, 0, min(len(data) // 2, _LONGEST_WORD)):
        return data[word.start() :]
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
