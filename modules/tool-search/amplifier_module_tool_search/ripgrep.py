"""Say how ripgrep is asked, and find it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from os.path import isabs
from typing import Final

from amplifier_module_tool_search.child import Command, run

#: Older ones lack options that are used here.
_OLDEST: Final = 13
_SECONDS: Final = 5.0

#: What the machine, the home folder or a repository says about searching does not count; .gitignore files do.
_QUIET: Final = (
    *("--no-config", "--color=never", "--hidden", "--no-follow", "--no-require-git"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-messages"),
)


class Ripgrep:
    """The program, once it was found to be there and to be what it is taken for."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    async def find(self) -> str | None:
        """Return the path of a ripgrep that can be used, or None. Each that is met is tried once."""
        path = shutil.which("rg")
        if path is None or not isabs(path):
            return None
        if path not in self._known:
            self._known[path] = await _is_usable(path)
        return path if self._known[path] else None


async def _is_usable(path: str) -> bool:
    said = bytearray()

    def hear(data: bytes) -> bool:
        said.extend(data[:4096])
        return len(said) > 4096

    try:
        ended = await run(Command([path, "--version"], "/"), _SECONDS, hear, lambda _: False)
    except OSError:
        return False
    version = re.match(rb"ripgrep (\d+)\.", said)
    return ended.code == 0 and version is not None and int(version[1]) >= _OLDEST


def selecting(
    exclusions: Sequence[str], include_ignored: bool, is_in_repository: bool, fds: Sequence[int], is_root: bool
) -> list[str]:
    """Return the options that say which files count. What is open at `fds` are rules for ripgrep."""
    options = list(_QUIET)
    if include_ignored:
        options.append("--no-ignore-vcs")
    else:
        options += [part for name in exclusions for part in ("--glob", f"!**/{name}/")]
    if not is_in_repository:
        options.append("--no-ignore-parent")
    options += [f"--ignore-file=/dev/fd/{fd}" for fd in fds]
    if is_root:
        options += ["--glob", "!/proc/", "--glob", "!/sys/", "--glob", "!/dev/"]
    return options


def typed(names: Sequence[str]) -> list[str]:
    """Return the options that let only files through whose names match one of the patterns."""
    return [f"--type-add=wanted:{name}" for name in names] + (["--type=wanted"] if names else [])
