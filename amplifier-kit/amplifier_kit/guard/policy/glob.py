"""Glob patterns over text, in linear time and with holes in the text."""

from __future__ import annotations

import re
from functools import lru_cache

_WILD = re.compile(r"[*?\[]")
_CLASS = re.compile(r"\[(!?)([^\]/]+)\]")
_TOKEN = re.compile(r"\[!?[^\]/]+\]|\*+|[^*\[]+|\[")


def literal_prefix(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard."""
    found = _WILD.search(pattern)
    return pattern if found is None else pattern[: found.start()]


def longest_text(pattern: str) -> str:
    """Return the longest text that every match of a pattern contains."""
    return max(re.split(r"[*?]|\[!?[^\]/]+\]", pattern), key=len)


def escaped(text: str) -> str:
    """Return a pattern that matches exactly this text."""
    return re.sub(r"([*?\[])", r"[\1]", text)


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern: `*` any text, `?` one character, `[abc]` and `[!abc]` one of a class.

    Only `*` matches a hole: whatever it is filled with, `*` matches that as well.
    """
    chunks = _between_stars(pattern)
    if len(chunks) == 1:
        return re.compile(f"{_chunk(pattern)}\\Z", re.DOTALL)
    first, *middle, last = (_chunk(chunk) for chunk in chunks)
    # The first place where a chunk fits is as good as any later one: no need to ever come back to it.
    inner = "".join(f"(?>.*?{chunk})" for chunk in middle if chunk)
    return re.compile(f"{first}{inner}.*{last}\\Z", re.DOTALL)


def check_classes(pattern: str) -> None:
    """Raise re.error for a pattern that cannot be compiled: all but a class can be.

    Most patterns are of paths, which are matched name by name: to compile them whole would be for nothing.
    """
    if "[" in pattern:
        for found in _CLASS.finditer(pattern):
            _compiled_one(found[0])


def _between_stars(pattern: str) -> list[str]:
    """Return the parts of a pattern between its `*`; a star inside a class is literal."""
    chunks = [""]
    for token in _TOKEN.findall(pattern):
        if token.startswith("*"):
            chunks.append("")
        else:
            chunks[-1] += token
    return chunks


def tokens(pattern: str) -> list[re.Pattern[str] | None]:
    """Return the single characters of a pattern, in order, and None for each run of `*`."""
    found: list[re.Pattern[str] | None] = []
    for index, chunk in enumerate(_between_stars(pattern)):
        found += [None] * bool(index)
        found += [_compiled_one(one[0]) for one in re.finditer(r"\[!?[^\]/]+\]|.", chunk, re.DOTALL)]
    return found


@lru_cache(maxsize=1024)
def _compiled_one(token: str) -> re.Pattern[str]:
    return re.compile(f"{_chunk(token)}\\Z", re.DOTALL)


def _chunk(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        found = _CLASS.match(text, at)
        if found:
            body = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^").replace("&", "\\&")
            body = body.replace("~", "\\~").replace("|", "\\|").replace("--", "\\-\\-")
            pieces.append(f"(?!\\0)[{'^' if found[1] else ''}{body}]")
            at = found.end()
            continue
        pieces.append("[^\\0]" if text[at] == "?" else re.escape(text[at]))
        at += 1
    return "".join(pieces)
