"""Understand glob patterns once, for every engine: as regular expressions, and as rules that ripgrep prunes by.

`*` and `?` stay within one name, `**` is any number of folders, `[a-z]` and `[!a-z]` are classes, `{a,b}` alternatives,
a backslash takes the next character as it is. A name that begins with a dot is a name like any other.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: More alternatives than this are refused: braces multiply.
MOST_ALTERNATIVES: Final = 64
MOST_CHARACTERS: Final = 4096


#: In ripgrep ** matches no folder with a line break in its name: these are let through, with all below them.
_ODD_RULES: Final = ("*[\t-\v]*/", "**/*[\t-\v]*/**/")


class GlobError(ValueError):
    """A pattern that means nothing; the text says why."""


class Glob(NamedTuple):
    """One pattern: the paths that match, the folders above them, and rules that let ripgrep reach at least those."""

    #: Full match of a path below the base, with slashes.
    regex: str
    #: Full match of a folder below which there may be matches.
    folders: str
    #: In the syntax of .gitignore: folders on the way. None: all of them.
    folder_rules: tuple[str, ...] | None
    #: Patterns for the names of files. Empty: all of them.
    names: tuple[str, ...]

    @classmethod
    def parse(cls, pattern: str, *, any_depth: bool = False) -> Glob:
        """Read a pattern for paths below a base; with `any_depth`, one without a slash is for names in every folder.

        Raises GlobError.
        """
        if not pattern or len(pattern) > MOST_CHARACTERS:
            raise GlobError("it is empty" if not pattern else f"it has more than {MOST_CHARACTERS} characters")
        if "\0" in pattern or "\n" in pattern:
            raise GlobError("it has a line break or a NUL in it")
        is_bare = any_depth and "/" not in pattern
        paths = [_components(alternative, is_bare) for alternative in expand_braces(pattern)]
        rules = tuple(dict.fromkeys(rule for path in paths for rule in _folder_rules(path)))
        names = tuple(dict.fromkeys(_loose(path[-1]) for path in paths))
        return cls(
            "|".join(path_regex(path) for path in paths),
            "|".join(_folders_regex(path) for path in paths),
            None if "*/" in rules else rules,
            () if any(not name.strip("*") for name in names) else names,
        )


def is_plain(component: str) -> bool:
    """Return whether a component of a pattern matches only itself."""
    return not re.search(r"[*?\[\]{}\\]", component)


def name_regex(pattern: str) -> str:
    """Return the regular expression for one name; raise GlobError."""
    return "|".join(_name_regex(alternative) for alternative in expand_braces(pattern))


def expand_braces(pattern: str) -> list[str]:
    """Expand braces into patterns without braces; raise GlobError."""
    opened = _unescaped(pattern, "{", 0)
    if opened < 0:
        return [pattern]
    parts, depth, start, place = [], 0, opened + 1, opened
    while place < len(pattern):
        mark = pattern[place]
        if mark == "\\":
            place += 1
        elif mark == "[" and (closed := _class_end(pattern, place)) > 0:
            place = closed
        elif mark == "{":
            depth += 1
        elif mark == "," and depth == 1:
            parts.append(pattern[start:place])
            start = place + 1
        elif mark == "}" and (depth := depth - 1) == 0:
            parts.append(pattern[start:place])
            break
        place += 1
    else:
        raise GlobError("a { is never closed")
    rests = expand_braces(pattern[place + 1 :])
    inner = [one for part in parts for one in expand_braces(part)]
    if len(inner) * len(rests) > MOST_ALTERNATIVES:
        raise GlobError(f"its braces give more than {MOST_ALTERNATIVES} patterns")
    return [pattern[:opened] + one + rest for one in inner for rest in rests]


def _unescaped(pattern: str, wanted: str, place: int) -> int:
    """Return where a character stands outside of classes and escapes, or -1."""
    while place < len(pattern):
        if pattern[place] == wanted:
            return place
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "[" and (closed := _class_end(pattern, place)) > 0:
            place = closed
        place += 1
    return -1


def _class_end(pattern: str, opened: int) -> int:
    """Return where the class that begins here is closed, or -1; a ] that comes first is part of it."""
    place = opened + 1
    if pattern[place : place + 1] in ("!", "^"):
        place += 1
    return pattern.find("]", place + 1)


def _components(pattern: str, is_bare: bool) -> list[str]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise GlobError("it has .. in it: name the folder as the path")
    if not names:
        raise GlobError("it names nothing")
    if is_bare:
        names.insert(0, "**")
    elif pattern.endswith("/"):
        names.append("**")
    return [name for place, name in enumerate(names) if name != "**" or names[place - 1] != "**" or place == 0]


def path_regex(names: list[str]) -> str:
    """Return a regular expression that never tries twice what cannot help: the first fit is as good as any other."""
    groups: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            groups.append([])
        else:
            groups[-1].append(_name_regex(name))
    if len(groups) == 1:
        return "/".join(groups[0])
    first, *middle, last = ["/".join(group) for group in groups]
    passed = "".join(f"(?>(?:[^/]+/)*?{group}/)" for group in middle)
    return (f"{first}/" if first else "") + passed + (f"(?:[^/]+/)*{last}" if last else ".+")


def _folders_regex(names: list[str]) -> str:
    regex = ""
    for name in reversed(names[:-1] if names[-1] != "**" else names):
        if name == "**":
            regex = ".*"
        elif regex == ".*":
            regex = f"{_name_regex(name)}(?:/.*)?"
        else:
            regex = _name_regex(name) + (f"(?:/{regex})?" if regex else "")
    return regex or "(?!)"


def _folder_rules(names: list[str]) -> list[str]:
    rules: list[str] = []
    for depth, name in enumerate(names):
        before = "".join(f"/{_loose(name)}" for name in names[:depth])
        if name == "**":
            return [*rules, f"{before}/**/*/", *_ODD_RULES] if before else ["*/"]
        if depth < len(names) - 1:
            rules.append(f"{before}/{_loose(name)}/")
    return rules


def _loose(name: str) -> str:
    """Write a name so that ripgrep lets at least as much through: it takes bytes for characters, and has escapes."""
    if name == "**" or re.search(r"[\\\[\]{}]", name):
        return name if name == "**" else "*"
    return re.sub(r"[^\w.\-]+", "*", name, flags=re.ASCII)


def _name_regex(name: str) -> str:
    """Return a regular expression for one name, up to a slash or the end, that takes no long time to fail."""
    chunks: list[list[str]] = [[]]
    place = 0
    while place < len(name):
        mark = name[place]
        if mark == "*":
            chunks.append([])
        elif mark == "?":
            chunks[-1].append("[^/]")
        elif mark == "[":
            closed = _class_end(name, place)
            if closed < 0:
                raise GlobError("a [ is never closed")
            chunks[-1].append(_class_regex(name[place + 1 : closed]))
            place = closed
        elif mark == "\\":
            place += 1
            if place == len(name):
                raise GlobError("it ends with a backslash")
            chunks[-1].append(re.escape(name[place]))
        else:
            chunks[-1].append(re.escape(mark))
        place += 1
    first, *rest = ["".join(chunk) for chunk in chunks]
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1] if chunk)
    return first + middle + (f"[^/]*{rest[-1]}" if rest else "")


def _class_regex(body: str) -> str:
    is_negated = body[0] in "!^"
    inner = body[1:] if is_negated else body
    escaped = re.sub(r"([\\\[\]^&|~])", r"\\\1", inner)
    regex = f"(?!/)[{'^' if is_negated else ''}{escaped}]"
    try:
        re.compile(regex)
    except re.error as error:
        raise GlobError(f"the class [{body}] is wrong: {error}") from None
    return regex
