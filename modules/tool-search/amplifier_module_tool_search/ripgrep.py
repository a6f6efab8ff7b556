"""Say how ripgrep is asked, and find it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from amplifier_kit.guard.processes.programs import find_program
from amplifier_kit.guard.sandbox.sandbox import sandbox_of
from amplifier_module_tool_search.child import Command, run

#: Older ones lack options that are used here.
_OLDEST: Final = 13
#: Older ones read these rules unless they are to read no rules at all.
_CAN_LEAVE_RULES: Final = 14
_RULES: Final = ".rgignore"
_SECONDS: Final = 5.0
#: Bytes for options about single paths: systems limit the size of all arguments together.
_MOST_EXCLUDED: Final = 64 * 1024
#: What means something in a pattern, or would be cut off at its end.
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}!]|(\s)")

#: What the machine, the home folder or a repository says about searching does not count; .gitignore files do.
_QUIET: Final = (
    *("--no-config", "--color=never", "--hidden", "--no-follow"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-messages"),
)


class Program(NamedTuple):
    """A ripgrep that can be used."""

    path: str
    version: int

    def can_search(self, folder: str) -> bool:
        """Return whether it searches a folder by .gitignore alone: some versions cannot be kept from other rules.

        Rules below the folder are not looked for, which would take as long as the search.
        """
        if self.version >= _CAN_LEAVE_RULES:
            return True
        while not os.path.lexists(os.path.join(folder, _RULES)):
            if (parent := os.path.dirname(folder)) == folder:
                return True
            folder = parent
        return False


class Ripgrep:
    """The program, looked up and checked once."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._known: dict[str, int] = {}

    async def find(self) -> Program | None:
        """Return a ripgrep that can be used, or None. Each that is met is tried once.

        One in a folder that commands can write to is not: it would run outside of the sandbox.
        """
        path = find_program("rg", os.environ.get("PATH"), self._writable())
        if path is None:
            return None
        if path not in self._known:
            self._known[path] = await _version(path)
        return Program(path, self._known[path]) if self._known[path] >= _OLDEST else None

    def _writable(self) -> list[str] | None:
        project = self._coordinator.get_capability("session.working_dir")
        try:
            return sandbox_of(self._coordinator).writable_roots()
        except (FileNotFoundError, ValueError):  # no folder to work in; settings that the tools for commands report
            return [str(project)] if project else None


async def _version(path: str) -> int:
    """Return the version of a program, 0 when it is not ripgrep or does not work."""
    said = bytearray()

    def hear(data: bytes) -> bool:
        said.extend(data[:4096])
        return len(said) > 4096

    try:
        ended = await run(Command([path, "--version"], "/"), _SECONDS, hear, lambda _: False)
    except OSError:
        return 0
    version = re.match(rb"ripgrep (\d{1,9})\.", said)
    return int(version[1]) if ended.code == 0 and version is not None else 0


def selecting(
    exclusions: Sequence[str], include_ignored: bool, is_in_repository: bool, fds: Sequence[int], is_root: bool
) -> list[str]:
    """Return the options that select files; `fds` are open files of rules for ripgrep."""
    options = list(_QUIET)
    if include_ignored:
        options.append("--no-ignore-vcs")
    else:
        options += [part for name in exclusions for part in ("--glob", f"!**/{name}/")]
    if not is_in_repository:
        # Only here: some versions take it to mean that repositories have no rules of their own.
        options += ["--no-require-git", "--no-ignore-parent"]
    options += [f"--ignore-file=/dev/fd/{fd}" for fd in fds]
    if is_root:
        options += ["--glob", "!/proc/", "--glob", "!/sys/", "--glob", "!/dev/"]
    return options


def typed(names: Sequence[str]) -> list[str]:
    """Return the options that let only files through whose names match one of the patterns."""
    return [f"--type-add=wanted:{name}" for name in names] + (["--type=wanted"] if names else [])


def excluding(paths: Iterable[str]) -> list[str]:
    """Return the options that keep ripgrep from looking at single paths, below where it is started.

    Paths that are not UTF-8, or beyond the size limit, are not in them: the reader of the results leaves those out.
    """
    options: list[str] = []
    room = _MOST_EXCLUDED
    for path in paths:
        try:
            room -= len(path.encode("utf-8")) + 16
        except UnicodeEncodeError:
            continue
        if room < 0:
            break
        # Stronger than any rule of a .gitignore.
        options += ["--glob", "!/" + _SPECIAL.sub(lambda found: f"[{found[0]}]" if found[1] else f"\\{found[0]}", path)]
    return options
