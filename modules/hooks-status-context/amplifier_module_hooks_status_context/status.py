"""Parse `git status --porcelain=v2 -z` and choose the changes that a model should see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Final

from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import Struct
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.text import one_line

#: Generated files: counted, not listed. A pattern that ends with a slash matches a folder at any depth.
TIER1: Final = (
    *("node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", "*.egg-info/", ".tox/", ".nox/", ".cache/"),
    *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".hypothesis/", ".gradle/", ".next/", ".terraform/"),
    *(".DS_Store", "Thumbs.db", "*.swp"),
)
#: Mostly generated files: only the first few are listed.
TIER2: Final = (
    *("*.lock", "package-lock.json", "pnpm-lock.yaml", "go.sum", "*.min.js", "*.min.css", "*.map", "*.snap"),
    *("dist/", "build/", "target/", "vendor/", "coverage/", ".idea/", ".vscode/", "*.log", "*.tmp", "*.bak"),
)

# Fields before the path, by kind of line: changed, renamed or copied, unmerged.
_FIELDS: Final = {"1": 8, "2": 9, "u": 10}


class Change(NamedTuple):
    """One file: the two letters of `git status --short`, and its path."""

    code: str
    path: str
    source: str | None = None

    @property
    def is_untracked(self) -> bool:
        """Return whether the file is untracked."""
        return self.code == "??"

    @property
    def line(self) -> str:
        """Return the change as one line."""
        moved = f"{one_line(self.source)} -> " if self.source is not None else ""
        return f"{self.code} {moved}{one_line(self.path)}"


class Status(Struct):
    """The output of `git status`."""

    commit: str | None = None
    upstream: str | None = None
    ahead: int = 0
    behind: int = 0
    changes: list[Change] = field(default_factory=list)
    #: Whether there is more than was read.
    is_cut: bool = False


def parse_status(output: bytes, *, is_cut: bool = False) -> Status:
    """Parse the output; unknown records are skipped."""
    records = output.decode("utf-8", "replace").split("\0")
    if is_cut:
        records = records[:-1]
    status = Status(is_cut=is_cut)
    remaining = iter(records)
    for record in remaining:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            _read_header(status, rest)
        elif kind == "?":
            status.changes.append(Change("??", rest))
        elif kind in _FIELDS:
            parts = record.split(" ", _FIELDS[kind])
            if len(parts) > _FIELDS[kind]:
                source = next(remaining, None) if kind == "2" else None
                status.changes.append(Change(parts[1].replace(".", " "), parts[-1], source))
    return status


def _read_header(status: Status, header: str) -> None:
    name, _, value = header.partition(" ")
    if name == "branch.oid" and value != "(initial)":
        status.commit = value
    elif name == "branch.upstream":
        status.upstream = value
    elif name == "branch.ab":
        counts = re.fullmatch(r"\+([0-9]{1,9}) -([0-9]{1,9})", value)
        if counts is not None:
            status.ahead, status.behind = int(counts[1]), int(counts[2])


def status_lines(status: Status, settings: StatusConfig) -> list[str]:
    """Return a heading with the total numbers, the chosen changes, and the number of those left out."""
    untracked = [change for change in status.changes if change.is_untracked]
    tracked = [change for change in status.changes if not change.is_untracked]
    if not status.changes:
        return ["Git status: clean" if settings.git_status_include_untracked else "Git status: no tracked changes"]
    counts = [f"{len(tracked)} changed"] if tracked or not untracked else []
    counts += [f"{len(untracked)} untracked"] if untracked else []
    more = "at least " if status.is_cut else ""
    choice = _Choice(settings)
    chosen = [
        *choice.among(tracked, settings.git_status_max_tracked),
        *choice.among(untracked, settings.git_status_max_untracked),
    ]
    listed = chosen[: settings.git_status_max_lines]
    lines = [f"Git status ({more}{', '.join(counts)}):", *(change.line for change in listed)]
    summary = choice.summary(len(status.changes) - len(listed))
    return [*lines, summary] if summary and settings.git_status_show_filter_summary else lines


class _Choice:
    """Choose among changes by tiers and limits."""

    def __init__(self, settings: StatusConfig) -> None:
        filters = settings.git_status_enable_path_filtering
        self._hidden = (*TIER1, *settings.git_status_tier1_patterns_extend) if filters else ()
        self._limited = (*TIER2, *settings.git_status_tier2_patterns_extend) if filters else ()
        self._limit = settings.git_status_tier2_limit
        self._listed_of_tier2 = 0
        self._hidden_count = 0

    def among(self, changes: Sequence[Change], limit: int | None) -> list[Change]:
        """Return at most `limit` changes: first source files, then a few generated ones."""
        visible = [change for change in changes if not matches(change.path, self._hidden)]
        self._hidden_count += len(changes) - len(visible)
        major: list[Change] = []
        minor: list[Change] = []
        for change in visible:
            (minor if matches(change.path, self._limited) else major).append(change)
        chosen = major[:limit]
        space = None if limit is None else limit - len(chosen)
        left = None if self._limit is None else self._limit - self._listed_of_tier2
        allowed = min((count for count in (space, left) if count is not None), default=None)
        few = minor[:allowed]
        self._listed_of_tier2 += len(few)
        return chosen + few

    def summary(self, unlisted: int) -> str:
        """Return a line about the changes that are not listed, empty when all are."""
        if not unlisted:
            return ""
        hidden = f"{self._hidden_count} of them made by tools" if self._hidden_count else ""
        return f"({unlisted} more not listed{', ' if hidden else ''}{hidden})"


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the patterns.

    `name/` matches a folder of that name at any depth, a pattern with a slash inside the whole path, any other the
    file's name.
    """
    *folders, name = path.split("/")  # git writes an untracked folder with a slash at its end: its name is then empty
    for pattern in patterns:
        if pattern.endswith("/") and "/" not in pattern[:-1]:
            found = any(fnmatchcase(folder, pattern[:-1]) for folder in folders)
        elif "/" in pattern:
            found = fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern)
        else:
            found = fnmatchcase(name, pattern)
        if found:
            return True
    return False
