"""Glob patterns for paths below a folder.

`*` and `?` stay within one name, `**` is any number of folders, `[a-z]` and `[!a-z]` are classes, `{a,b}` alternatives,
a backslash takes the next character literally. A name that begins with a dot is a name like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final

from amplifier_kit.named_tuple import NamedTuple

#: More alternatives than this are refused: braces multiply.
MAX_ALTERNATIVES: Final = 64
MAX_CHARACTERS: Final = 4096

_ANY_FOLDERS: Final = "**"
#: One unit of a pattern: an escaped character, a class (a ] that comes first is part of it), or a character.
_TOKEN: Final = re.compile(r"(?s)\\.|\[[!^]?\]?[^\]]*\]|.")


class GlobError(ValueError):
    """An invalid pattern; the text says why."""


class Glob(NamedTuple):
    """One pattern: its alternatives, each as patterns of `fnmatch` for the names of a path, or `**`."""

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, pattern: str, *, any_depth: bool = False) -> Glob:
        """Read a pattern for paths below a base; with `any_depth`, one without a slash is for names in every folder.

        Raises GlobError.
        """
        if not pattern or len(pattern) > MAX_CHARACTERS:
            raise GlobError("it is empty" if not pattern else f"it has more than {MAX_CHARACTERS} characters")
        if "\0" in pattern or "\n" in pattern:
            raise GlobError("it contains a line break or a NUL")
        is_name = any_depth and "/" not in pattern
        return cls(tuple(_parts(alternative, is_name) for alternative in expand_braces(pattern)))

    def matches(self, path: str) -> bool:
        """Return whether a path below the base matches; the time is bounded by names times parts."""
        names = path.split("/")
        for parts in self.alternatives:
            if len(parts) == 2 and parts[0] == _ANY_FOLDERS:  # by far the most frequent kind
                if parts[1] == "*" or _name_matcher(parts[1])(names[-1]):
                    return True
            elif _matches(parts, names):
                return True
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """Patterns that the names of all matching files fit, in a form that every engine understands; empty for any."""
        names = tuple(dict.fromkeys(_loose(parts[-1]) for parts in self.alternatives))
        return () if any(not name.strip("*") for name in names) else names

    @property
    def exact_names(self) -> tuple[str, ...]:
        """The same when a file matches if and only if its name does; otherwise empty."""
        is_exact = all(parts[:-1] == (_ANY_FOLDERS,) and _loose(parts[-1]) == parts[-1] for parts in self.alternatives)
        return self.names if is_exact else ()

    @property
    def folders(self) -> tuple[str, ...] | None:
        """Patterns that fit the first folder of all matching paths, in the same form; None for any."""
        firsts = [_loose(parts[0]) for parts in self.alternatives if len(parts) > 1]
        return None if any(not first.strip("*") for first in firsts) else tuple(dict.fromkeys(firsts))


def is_literal(name: str) -> bool:
    """Return whether one name in a pattern matches only itself."""
    return not re.search(r"[*?\[\]{}\\]", name)


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern stands for; raise GlobError."""
    tokens = _TOKEN.findall(pattern)
    if "{" not in tokens:
        return [pattern]
    start = tokens.index("{")
    depth, parts = 0, [""]
    for end in range(start, len(tokens)):
        token = tokens[end]
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            break
        if token == "," and depth == 1:
            parts.append("")
        elif end > start:
            parts[-1] += token
    else:
        raise GlobError("a { is never closed")
    rests = expand_braces("".join(tokens[end + 1 :]))
    inner = [one for part in parts for one in expand_braces(part)]
    if len(inner) * len(rests) > MAX_ALTERNATIVES:
        raise GlobError(f"its braces give more than {MAX_ALTERNATIVES} patterns")
    return ["".join(tokens[:start]) + one + rest for one in inner for rest in rests]


def _parts(pattern: str, is_name: bool) -> tuple[str, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise GlobError("it contains ..: name the folder as the path")
    if not names:
        raise GlobError("it names nothing")
    parts = [name if name == _ANY_FOLDERS else _part(name) for name in names]
    if is_name:
        parts.insert(0, _ANY_FOLDERS)
    if pattern.endswith("/"):
        parts.append(_ANY_FOLDERS)
    if parts[-1] == _ANY_FOLDERS:
        parts.append("*")  # what is below a folder, and not the folder itself
    return tuple(parts)


def _part(name: str) -> str:
    """Return the pattern of `fnmatch` for one name."""
    part = ""
    for token in _TOKEN.findall(name):
        if token in ("[", "\\"):
            raise GlobError("a [ is never closed" if token == "[" else "it ends with a backslash")
        if token[0] == "\\":
            part += f"[{token[1]}]" if token[1] in "*?[" else token[1]
        elif token[0] == "[":
            body = token[2:] if token[1] in "!^" else token[1:]
            if any(first > last for first, last in re.findall(r"(?s)(.)-(.)", body[:-1])):
                raise GlobError(f"the class {token} has a range that ends before it begins")
            part += f"[!{body}" if token[1] in "!^" else token
        else:
            part += token
    return part


def _loose(part: str) -> str:
    """Return a pattern that matches at least as much, and means the same in .gitignore, which counts bytes."""
    return "*" if "[" in part else re.sub(r"[^\w.\-]+", "*", part, flags=re.ASCII)


@lru_cache(maxsize=1024)
def _name_matcher(part: str) -> Callable[[str], object]:
    return re.compile(translate(part)).match


def _matches(parts: Sequence[str], names: Sequence[str]) -> bool:
    part = name = retry_name = 0
    retry_part = -1
    while name < len(names):
        if part < len(parts) and parts[part] == _ANY_FOLDERS:
            part += 1
            retry_part, retry_name = part, name
        elif part < len(parts) and _name_matcher(parts[part])(names[name]):
            part += 1
            name += 1
        elif retry_part >= 0:
            # The last ** takes one folder more; an earlier one need not: its first fit is as good as any.
            retry_name += 1
            part, name = retry_part, retry_name
        else:
            return False
    return part == len(parts)
