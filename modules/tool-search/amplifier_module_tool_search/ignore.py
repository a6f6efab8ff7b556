"""Decide what a .gitignore ignores, name by name on the way down, as git and ripgrep do."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Set
from typing import Final, NamedTuple

from amplifier_module_tool_search.globs import GlobError, expand_braces, name_regex, path_regex

NAME: Final = ".gitignore"
#: More of one file is not read.
_MOST_BYTES: Final = 1024 * 1024


class _Rule:
    """A rule that needs a regular expression, which is compiled when a name that may fit is met."""

    __slots__ = ("_folders", "_pattern", "_regex", "is_below", "is_for_folders", "is_for_paths", "name", "number")

    def __init__(self, number: int, pattern: str, is_for_folders: bool) -> None:
        self.number = number
        self.is_for_folders = is_for_folders
        self.is_for_paths = "/" in pattern
        #: Whether everything below what matches is meant, and not that itself.
        self.is_below = pattern.endswith("/**")
        #: What a name must match for the rule to be about it.
        self.name = "*" if self.is_below else pattern.rpartition("/")[2]
        self._pattern = pattern
        self._regex: re.Pattern[str] | None = None
        self._folders: re.Pattern[str] | None = None

    def may_fit_in(self, folder: str) -> bool:
        """Return whether the rule can match anything in a folder, which ends with a slash unless it is the first."""
        if not self.is_for_paths or self.is_below:
            return True
        if self._folders is None:
            names = [name for name in self._pattern.split("/")[:-1] if name]
            self._folders = re.compile(path_regex([*names, "*"]), re.DOTALL)
        return self._folders.fullmatch(f"{folder}x") is not None

    def fits(self, name: str, path: str) -> bool:
        """Return whether the rule matches a file or folder."""
        if self._regex is None:
            self._regex = _regex(self._pattern)
        subject = path if self.is_for_paths else name
        found = self._regex.match(subject)
        return found is not None and (self.is_below or found.end() == len(subject))


def _regex(pattern: str) -> re.Pattern[str]:
    # Not every search meets a name that needs it, and it takes longer to load than many a search.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        # A mark at the beginning was looked at by now; here it is part of the name.
        regex, _ = GitIgnoreSpecPattern.pattern_to_regex(("\\" if pattern[0] in "#!" else "") + pattern)
    except GitIgnorePatternError:
        regex = None
    return re.compile("(?!)" if regex is None else regex, re.DOTALL)


class Glance(NamedTuple):
    """A fast look at a name in some folder: whether any rule can be about it."""

    plain: Set[str]
    endings: tuple[str, ...]
    names: Callable[[str], object] | None


class IgnoreFile:
    """The rules of one .gitignore. The last that fits decides."""

    def __init__(self, text: str) -> None:
        #: By number: whether the rule ignores.
        self._verdicts: list[bool] = []
        #: For files and for folders: names, endings after the last dot, and the number of the last rule for everything.
        self._names: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._endings: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._everything = [-1, -1]
        #: The others, last first.
        self._rules: list[_Rule] = []
        for line in text.splitlines():
            self._add(line)
        self._rules.reverse()
        self._glances: dict[tuple[int, ...], Glance] = {}

    @property
    def is_empty(self) -> bool:
        return not self._verdicts

    def glance(self, folder: str) -> Glance:
        """Return what tells apart the names in a folder that need a closer look."""
        key = tuple([number for number, rule in enumerate(self._rules) if rule.may_fit_in(folder)])
        if key not in self._glances:
            self._glances[key] = self._glance({self._rules[number].name for number in key})
        return self._glances[key]

    def _glance(self, patterns: set[str]) -> Glance:
        endings = {pattern for pattern in patterns if re.fullmatch(r"\*[\w.\-~]*", pattern)}
        others = "|".join(name_regex(pattern) for pattern in sorted(patterns - endings))
        ends = {pattern[1:] for pattern in endings}.union(*self._endings)
        if max(self._everything) >= 0:
            ends.add("")  # what every name ends with
        names = re.compile(others, re.DOTALL).fullmatch if others else None
        return Glance(frozenset().union(*self._names), tuple(sorted(ends)), names)

    def verdict(self, name: str, path: str, is_folder: bool, level: Level) -> bool | None:
        """Return whether a file or folder is ignored, or None when no rule is about it.

        `path` leads to it from the top of the walk. Both are as `byte_text` makes them.
        """
        best = self._names[is_folder].get(name, -1)
        dot = name.rfind(".")
        if dot >= 0:
            best = max(best, self._endings[is_folder].get(name[dot:], -1))
        best = max(best, self._everything[is_folder])
        path = level.prefix + path[level.cut :]
        for rule in self._rules:
            if rule.number <= best:
                break
            if (is_folder or not rule.is_for_folders) and rule.fits(name, path):
                best = rule.number
                break
        return self._verdicts[best] if best >= 0 else None

    def _add(self, line: str) -> None:
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            return
        is_ignored = not line.startswith("!")
        pattern = line if is_ignored else line[1:]
        is_for_folders = pattern.endswith("/")
        if is_for_folders:
            pattern = pattern[:-1]
        try:
            patterns = expand_braces(pattern)
            for one in patterns:
                for name in one.split("/"):
                    name_regex(name)  # invalid for ripgrep, so invalid here
        except GlobError:
            return
        for one in patterns:
            self._add_pattern(one, is_ignored, is_for_folders)

    def _add_pattern(self, pattern: str, is_ignored: bool, is_for_folders: bool) -> None:
        number = len(self._verdicts)
        kinds = (True,) if is_for_folders else (False, True)
        if not pattern.strip("/"):
            return
        self._verdicts.append(is_ignored)
        if "/" not in pattern and not pattern.strip("*"):
            for kind in kinds:
                self._everything[kind] = number
        elif re.fullmatch(r"[\w.\-]+", pattern):
            for kind in kinds:
                self._names[kind][pattern] = number
        elif re.fullmatch(r"\*\.[\w\-]+", pattern):
            for kind in kinds:
                self._endings[kind][pattern[1:]] = number
        else:
            self._rules.append(_Rule(number, pattern, is_for_folders))


def byte_text(name: str) -> str:
    """Return a name with one character per byte: that is what wildcards in .gitignore count."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("latin-1")


def read_ignore_file(path: str) -> IgnoreFile | None:
    """Read a .gitignore; None when there is none, or nothing in it. What cannot be read has no rules.

    Only lines before the first one of invalid UTF-8 count.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(fd, _MOST_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    lines = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            break
        lines.append(line.decode("latin-1").removesuffix("\r"))
    ignore = IgnoreFile("\n".join(lines))
    return None if ignore.is_empty else ignore


class Level(NamedTuple):
    """The .gitignore of one folder, as seen from the top of a walk."""

    rules: IgnoreFile
    #: How many characters of a path below the top lead to the folder.
    cut: int
    #: Or, for a folder above the top, how the top is reached from there.
    prefix: str = ""
    #: For the folder that is walked now.
    glance: Glance = Glance(frozenset(), ("",), None)

    def at(self, folder: str) -> Level:
        """Return this for another folder below the top; it ends with a slash unless it is the top."""
        glance = self.rules.glance(self.prefix + folder[self.cut :])
        return self if glance is self.glance else Level(self.rules, self.cut, self.prefix, glance)


def levels_above(top: str) -> list[Level]:
    """Return the rules that count for a folder from above, nearest first: those of the repository it is in."""
    folders = []
    folder = top
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return []
        folder = parent
        folders.append(folder)
    levels = []
    for above in folders:
        rules = read_ignore_file(os.path.join(above, NAME))
        if rules is not None:
            levels.append(Level(rules, 0, byte_text(os.path.relpath(top, above)) + "/"))
    return levels
