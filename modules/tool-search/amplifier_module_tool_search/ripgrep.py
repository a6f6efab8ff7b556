"""Find ripgrep, and say how it is asked."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from amplifier_kit.guard.processes.launch import CommandTimeoutError, memory_file, run_program
from amplifier_kit.guard.processes.programs import find_program
from amplifier_kit.guard.sandbox.sandbox import sandbox_of
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_search.calls import GrepCall
from amplifier_module_tool_search.glob_pattern import Glob
from amplifier_module_tool_search.place import Place

#: Older ones cannot be kept from the rules of a `.rgignore`.
_OLDEST: Final = 14
_SECONDS: Final = 5.0
#: Bytes for options about single paths: systems limit the size of all arguments together.
_MAX_EXCLUDED: Final = 64 * 1024
#: Where pip puts the program of the package `ripgrep`.
_OWN_PROGRAMS: Final = os.path.dirname(sys.executable)
#: Special in a pattern, or cut off at its end.
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}!]|(\s)")

#: Settings of the machine, the home folder or a repository do not count; .gitignore files do.
_QUIET: Final = (
    *("--no-config", "--color=never", "--hidden", "--no-follow"),
    *("--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-messages"),
)


def find_ripgrep(coordinator: Any) -> str | None:
    """Return the path of a ripgrep that can be used: from PATH, else from our own environment; None without one.

    One in a folder that commands can write to is not used: it would run outside of the sandbox.
    """
    project = coordinator.get_capability("session.working_dir")
    untrusted: Sequence[str] | None
    try:
        untrusted = sandbox_of(coordinator).writable_roots()
    except (FileNotFoundError, ValueError):  # no folder to work in; settings that the tools for commands report
        untrusted = [str(project)] if project else None
    for folders in (os.environ.get("PATH"), _OWN_PROGRAMS):
        path = find_program("rg", folders, untrusted)
        if path is not None and _version(path) >= _OLDEST:
            return path
    return None


def _version(path: str) -> int:
    """Return the version of a program, 0 when it is not ripgrep or does not work. Each is started once."""
    if path not in _versions:
        found = None
        try:
            done = run_program([path, "--version"], timeout=_SECONDS, environment={"LC_ALL": "C.UTF-8"})
            found = re.match(r"ripgrep (\d{1,9})\.", done.output) if done.returncode == 0 else None
        except (OSError, CommandTimeoutError):
            pass
        _versions[path] = 0 if found is None else int(found[1])
    return _versions[path]


_versions: dict[str, int] = {}


class Selection(NamedTuple):
    """The files of a folder that are of interest, as far as an engine selects them by itself."""

    #: Patterns for the names of folders that are left out.
    exclusions: tuple[str, ...]
    includes_ignored: bool
    #: Files have one of these names (`Glob.names`), if there are any, and are below these folders (`Glob.folders`).
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] | None = None
    #: Files have none of these names.
    excluded_names: tuple[str, ...] = ()
    #: Single paths to leave out.
    hidden: Iterable[str] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether the names or folders of files are limited."""
        return bool(self.names or self.folders or self.excluded_names)

    def narrow(self, glob: Glob | None, *, is_negated: bool = False, names: tuple[str, ...] = ()) -> Selection:
        """Return the part that may match a pattern, or not match it, and has one of the names if there are any."""
        if glob is None or is_negated:
            return self._replace(names=names, excluded_names=() if glob is None else glob.exact_names)
        return self._replace(names=names or glob.names, folders=glob.folders)


@contextmanager
def selection_options(selection: Selection, place: Place) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Yield the options that select files, and the descriptors that they name; these are open while the block runs."""
    options = list(_QUIET)
    if selection.includes_ignored:
        options.append("--no-ignore-vcs")
    else:
        options += [part for name in selection.exclusions for part in ("--glob", f"!**/{name}/")]
    if not place.is_in_repository:
        # Only here: some versions take it to mean that repositories have no rules of their own.
        options += ["--no-require-git", "--no-ignore-parent"]
    if place.path == "/":
        options += ["--glob", "!/proc/", "--glob", "!/sys/", "--glob", "!/dev/"]
    # Not as --glob, which lifts the rules of .gitignore.
    options += [f"--type-add=wanted:{name}" for name in selection.names] + ["--type=wanted"] * bool(selection.names)
    options += [f"--type-add=excluded:{name}" for name in selection.excluded_names]
    options += ["--type-not=excluded"] * bool(selection.excluded_names)
    options += exclude_paths(selection.hidden)
    if selection.folders is None:
        yield options, ()
        return
    rules = memory_file("".join(["/*/\n", *(f"!/{folder}/\n" for folder in selection.folders)]).encode())
    try:
        yield [*options, f"--ignore-file=/dev/fd/{rules}"], (rules,)
    finally:
        os.close(rules)


def exclude_paths(paths: Iterable[str]) -> list[str]:
    """Return the options that keep ripgrep from looking at single paths, below where it is started.

    Paths that are not UTF-8, or beyond the size limit, are not in them: the reader of the results leaves those out.
    """
    options: list[str] = []
    room = _MAX_EXCLUDED
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


def pattern_options(
    call: GrepCall, max_file_size: int | None, *, has_lines: bool, is_logged: bool = False
) -> Sequence[str]:
    """Return the options for what to search and what to print: JSON with lines, else paths with or without counts.

    `is_logged`: ripgrep names each file that it leaves out, those that are too large among them.
    """
    options = ["--no-mmap", "--engine=auto", "--ignore-case" if call.ignore_case else "--case-sensitive"]
    options += ["--multiline", "--multiline-dotall"] if call.multiline else ["--crlf"]
    if max_file_size is not None:
        options += [f"--max-filesize={max_file_size}", *["--debug"] * is_logged]
    if has_lines:
        options.append("--json")
        if call.mode == "content":
            options += [f"--before-context={call.before}", f"--after-context={call.after}"]
    else:
        options += ["--null", "--with-filename", "--count" if call.mode == "count" else "-l"]
    return [*options, "-e", call.pattern]
