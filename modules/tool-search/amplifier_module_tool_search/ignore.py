"""Decide what a .gitignore ignores, name by name on the way down, as git and ripgrep do."""

from __future__ import annotations

import os
import re
import stat
from typing import Final, NamedTuple

from amplifier_module_tool_search.globs import GlobError, expand_braces, name_regex

NAME: Final = ".gitignore"
#: More of one file is not read.
_MOST_BYTES: Final = 1024 * 1024


class _Rule(NamedTuple):
    number: int
    is_for_folders: bool
    is_for_paths: bool
    regex: re.Pattern[str]
    #: Whether everything below what matches is meant, and not that itself.
    is_below: bool


class IgnoreFile:
    """The rules of one .gitignore. The last that fits decides."""

    def __init__(self, text: str) -> None:
        #: By number: whether the rule ignores.
        self._verdicts: list[bool] = []
        #: For files and for folders: names, endings after the last dot, and the number of the last rule for everything.
        self._names: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._endings: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._everything = [-1, -1]
        self._rules: list[_Rule] = []
        for line in text.splitlines():
            self._add(line)
        self._rules.reverse()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no rule in it."""
        return not self._verdicts

    def verdict(self, name: str, path: str, is_folder: bool) -> bool | None:
        """Return whether a file or folder is ignored, or None when no rule is about it.

        `path` leads to it from the folder of this file. Both are as `byte_text` makes them.
        """
        best = max(self._names[is_folder].get(name, -1), self._everything[is_folder])
        dot = name.rfind(".")
        if dot >= 0:
            best = max(best, self._endings[is_folder].get(name[dot:], -1))
        for rule in self._rules:
            if rule.number <= best:
                break
            if rule.is_for_folders and not is_folder:
                continue
            subject = path if rule.is_for_paths else name
            found = rule.regex.match(subject)
            if found is not None and (rule.is_below or found.end() == len(subject)):
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
                name_regex(one)  # what is no pattern for ripgrep is none here
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
            regex = _regex(pattern)
            if regex is not None:
                rule = _Rule(number, is_for_folders, "/" in pattern, regex, pattern.endswith("/**"))
                self._rules.append(rule)


def _regex(pattern: str) -> re.Pattern[str] | None:
    # Not every search meets a rule that needs it, and it takes longer to load than many a search.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        # A mark at the beginning was looked at by now; behind a slash it is part of the name.
        regex, _ = GitIgnoreSpecPattern.pattern_to_regex(("\\" if pattern[0] in "#!" else "") + pattern)
    except GitIgnorePatternError:
        return None
    return None if regex is None else re.compile(regex, re.DOTALL)


def byte_text(name: str) -> str:
    """Return a name with one character per byte: that is what wildcards in .gitignore count."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("latin-1")


def read_ignore_file(path: str) -> IgnoreFile | None:
    """Read a .gitignore; None when there is none, or nothing in it. What cannot be read has no rules.

    Lines up to the first that is no UTF-8 count.
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

    def verdict(self, name: str, path: str, is_folder: bool) -> bool | None:
        """Return what this file says of a path below the top."""
        return self.rules.verdict(name, self.prefix + path[self.cut :], is_folder)


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
