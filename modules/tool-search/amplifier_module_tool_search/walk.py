"""Walk a tree of folders without following links, leaving out ignored files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from amplifier_module_tool_search.ignore import NAME, Level, byte_text, levels_above, read_ignore_file

Problem = Callable[[str, OSError], None]
#: Tells for each of some paths whether it is to be left out.
Hiding = Callable[[list[str]], Sequence[bool]]


class Selection(NamedTuple):
    """Which part of a tree to walk."""

    #: Full match of the names of folders that are left out.
    exclusions: str | None = None
    #: Full match of folders below which there may be anything of interest.
    folders: str | None = None
    is_ignoring: bool = True
    #: Paths from the top that are left out.
    without: Sequence[str] = ()


class Walk:
    """A walk through the current directory. Other kinds than files and folders are not met."""

    def __init__(self, selection: Selection, problem: Problem, hiding: Hiding | None = None) -> None:
        self._excluded = re.compile(selection.exclusions or "(?!)", re.DOTALL).fullmatch
        self._leads_on = None if selection.folders is None else re.compile(selection.folders, re.DOTALL).fullmatch
        self._is_ignoring = selection.is_ignoring
        self._without = frozenset(selection.without)
        self._problem = problem
        self._hiding = hiding

    def __iter__(self) -> Iterator[tuple[str, str, bool]]:
        """Yield path, name and whether it is a folder; folders come before their content."""
        levels = tuple(levels_above(os.getcwd())) if self._is_ignoring else ()
        pending: list[tuple[str, tuple[Level, ...]]] = [("", levels)]
        while pending:
            folder, levels = pending.pop()
            prefix = f"{folder}/" if folder else ""
            entries, has_git, has_rules = self._entries(folder)
            if self._is_ignoring:
                levels = levels_in(prefix, levels, has_git and bool(prefix), has_rules)
            if self._hiding is not None:
                entries = self._shown(self._hiding, prefix, entries, levels)
            for name, is_folder in entries:
                path = prefix + name
                if is_folder and (self._excluded(name) or path in self._without):
                    continue
                if levels and is_ignored(name, path, is_folder, levels):
                    continue
                yield path, name, is_folder
                if is_folder and (self._leads_on is None or self._leads_on(path)):
                    pending.append((path, levels))

    def _shown(
        self, hiding: Hiding, prefix: str, entries: list[tuple[str, bool]], levels: tuple[Level, ...]
    ) -> list[tuple[str, bool]]:
        """Return the entries of a folder that are not left out."""
        met = [
            (name, is_folder)
            for name, is_folder in entries
            if not (is_folder and (self._excluded(name) or prefix + name in self._without))
            and not (levels and is_ignored(name, prefix + name, is_folder, levels))
        ]
        hidden = hiding([prefix + name for name, _ in met])
        return [entry for entry, is_hidden in zip(met, hidden, strict=True) if not is_hidden]

    def _entries(self, folder: str) -> tuple[list[tuple[str, bool]], bool, bool]:
        """Return the files and folders in a folder, and whether it has a repository and its own rules."""
        entries: list[tuple[str, bool]] = []
        has_git = has_rules = False
        try:
            fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            self._problem(folder or ".", error)
            return entries, has_git, has_rules
        try:
            with os.scandir(fd) as found:
                for entry in found:
                    name = entry.name
                    if name[0] == ".":
                        has_git = has_git or name == ".git"
                        has_rules = has_rules or name == NAME
                    if entry.is_file(follow_symlinks=False):
                        entries.append((name, False))
                    elif entry.is_dir(follow_symlinks=False):
                        entries.append((name, True))
        except OSError as error:
            self._problem(folder or ".", error)
        finally:
            os.close(fd)
        return entries, has_git, has_rules


def levels_in(prefix: str, levels: tuple[Level, ...], is_repository: bool, has_rules: bool) -> tuple[Level, ...]:
    """Return the rules that count in a folder: its own, then those from above within the same repository."""
    folder = byte_text(prefix)
    rules = read_ignore_file(prefix + NAME) if has_rules else None
    above = () if is_repository else levels
    own = () if rules is None else (Level(rules, len(folder)),)
    return tuple(level.at(folder) for level in (*own, *above))


def is_ignored(name: str, path: str, is_folder: bool, levels: tuple[Level, ...]) -> bool:
    """Return whether a file or folder below the top is ignored by the nearest rules that match it."""
    if not path.isascii():
        name, path = byte_text(name), byte_text(path)
    for level in levels:
        plain, endings, names = level.glance
        if name in plain or name.endswith(endings) or (names is not None and names(name)):
            verdict = level.rules.verdict(name, path, is_folder, level)
            if verdict is not None:
                return verdict
    return False
