"""Find what a program needs to be visible in a sandbox: its file behind links, its interpreter, the packages around it.

Only what is recognised as a program is shown: a Python or Node installation, a virtual environment, a `node_modules`
folder, the root of a package, or else the single file. Never the home folder or anything above it, a folder that is
shared or holds secrets, or a place inside one. Where a command could have decided what is found, because a file or link
in a writable folder leads there, only whole installations of Python and Node are shown, which hold nothing private.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from amplifier_kit.guard.processes.programs import find_program, is_below, leaves_by_link
from amplifier_kit.guard.sandbox.system_paths import (
    BIN_NAMES,
    FOLDERS,
    SECRETS,
    is_broad,
    is_too_wide,
    pth_folders,
)
from amplifier_kit.named_tuple import NamedTuple

_MAX_LINKS: Final = 40
#: Of a script, to read the name of its interpreter.
_LONGEST_SHEBANG: Final = 512
#: Programs whose first file argument is the program that they run.
_INTERPRETERS: Final = re.compile(r"(python|pypy)[0-9.]*|node|nodejs|deno|bun|tsx|ts-node|ruby|perl|php|java|bash|sh")
#: Options of interpreters with which no file is the program.
_NO_SCRIPT: Final = ("-m", "-c", "-e", "--eval", "-p", "--print")
#: A folder with one of these is the root of a package.
_ROOT_MARKS: Final = (
    *("package.json", "pyproject.toml", "setup.py", "requirements.txt", "deno.json", "go.mod", "Cargo.toml", "Gemfile"),
    *(".venv", ".git"),
)
#: Nothing in these is a program.
_NO_PROGRAMS: Final = ("/etc", "/proc", "/sys", "/dev", "/run", "/var/run")
_NODE_MODULES: Final = "/node_modules/"


class ProgramPaths(NamedTuple):
    """How to start a program in the sandbox, and what has to be visible for it."""

    #: The path to start; another than the given one, where that is a link which the sandbox does not show.
    program: str
    #: Folders and files with links resolved, without the system's.
    paths: tuple[str, ...]


def program_paths(
    argv: Sequence[str], *, path: str, home: str, roots: Sequence[str], hidden: Sequence[str] = ()
) -> ProgramPaths:
    """Return what a command needs to be visible; its program is given by its absolute path.

    `path` is the PATH that interpreters are looked up on, `roots` the folders that commands can write, the project
    first, and `hidden` more folders with secrets; all but `path` with links resolved.
    """
    search = _Search(path, home, roots, hidden)
    search.add_program(argv[0])
    if (script := script_of(argv)) and not _is_data(script, argv):
        search.add_program(script)
    return ProgramPaths(search.visible_step(argv[0]), tuple(search.found))


def script_of(argv: Sequence[str], folder: str = os.sep) -> str:
    """Return the path of the script that a command starts by its interpreter in a folder; empty if there is none."""
    if not _INTERPRETERS.fullmatch(os.path.basename(argv[0])):
        return ""
    paths = (os.path.normpath(os.path.join(folder, each)) for each in argv[1:] if not each.startswith("-"))
    return next((path for path in paths if os.path.isfile(path)), "")


def _is_data(script: str, argv: Sequence[str]) -> bool:
    """Return whether the first file of a command is one that its program reads: to show it may show a repository."""
    before = takewhile(lambda word: os.path.normpath(os.path.join(os.sep, word)) != script, argv[1:])
    return any(word in _NO_SCRIPT for word in before)


class _Search:
    def __init__(self, path: str, home: str, roots: Sequence[str], hidden: Sequence[str]) -> None:
        self._path = path
        self._home = home
        self._roots = roots
        self._secrets = [*(os.path.realpath(os.path.join(home, name)) for name in SECRETS), *hidden]
        self._seen: set[str] = set()
        self.found: dict[str, None] = {}

    def add_program(self, path: str, *, is_controlled: bool = False) -> None:
        """Find what a program needs; `is_controlled` if a command could have decided that it is this one."""
        if path in self._seen:
            return
        self._seen.add(path)
        for named, step in _steps(path):
            is_controlled = is_controlled or leaves_by_link(os.path.dirname(named), self._roots)
            self._add_place(step, is_controlled=is_controlled)
            is_controlled = is_controlled or self._is_writable(step)
        for interpreter in self._interpreters(os.path.realpath(path)):
            self.add_program(interpreter, is_controlled=is_controlled)

    def visible_step(self, path: str) -> str:
        """Return the first step on the way to a program that is visible; the path itself if none is."""
        for _, step in _steps(path):
            if any(is_below(step, place) for place in (*self.found, *FOLDERS, *self._roots)):
                return step
        return path

    def _is_writable(self, path: str) -> bool:
        return any(is_below(path, root) for root in self._roots)

    def _add_place(self, path: str, *, is_controlled: bool) -> None:
        """Show the installation, environment or package that a file belongs to, else the file."""
        folder = os.path.dirname(path)
        prefix = os.path.dirname(folder) if os.path.basename(folder) in BIN_NAMES else ""
        if prefix and (base := _base_of_environment(prefix)):
            is_planted = is_controlled or self._is_writable(prefix)
            for place in dict.fromkeys((base, os.path.realpath(base))):
                if _is_installation(place):
                    self._show(place)
            if not is_planted:
                self._show(prefix)
                for linked in _linked_by(prefix):
                    self._show(linked)
        elif prefix and _is_installation(prefix):
            self._show(prefix)
        elif not is_controlled:
            for place in self._package_of(path):
                self._show(place)

    def _package_of(self, path: str) -> Iterator[str]:
        if _NODE_MODULES in path:
            yield path[: path.index(_NODE_MODULES) + len(_NODE_MODULES) - 1]
        if _NODE_MODULES in path or os.path.islink(path):
            return
        root = next((folder for folder in _parents(path) if self._is_root(folder)), None)
        yield root if root is not None else path
        if root is not None and os.path.exists(os.path.join(root, "package.json")):
            # Node looks for packages in all folders above, as the packages of one repository share theirs.
            yield from (modules for above in _parents(root) if os.path.isdir(modules := f"{above}/node_modules"))

    def _is_root(self, folder: str) -> bool:
        return self._may_show(folder) and any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_MARKS)

    def _show(self, path: str) -> None:
        real = os.path.realpath(path)
        is_shown = any(is_below(real, place) for place in (*FOLDERS, *self._roots, *self.found))
        # A link in a writable folder may lead to any place: `node_modules` of a project, or what a `.pth` file names.
        if not is_shown and not leaves_by_link(path, self._roots) and os.path.exists(real) and self._may_show(real):
            self.found[real] = None

    def _may_show(self, path: str) -> bool:
        if any(is_below(path, secret) or is_below(secret, path) for secret in self._secrets):
            return False
        if any(is_below(path, place) for place in _NO_PROGRAMS):
            return False
        if not os.path.isdir(path):
            return True
        return not is_too_wide(path, self._home) and not any(is_broad(path, self._home, root) for root in self._roots)

    def _interpreters(self, path: str) -> Iterator[str]:
        """Yield the interpreter that the first line of a script names."""
        try:
            with open(path, "rb") as file:
                line = file.read(_LONGEST_SHEBANG).split(b"\n", 1)[0]
        except OSError:
            return
        words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
        if not words or not os.path.isabs(words[0]):
            return
        yield words[0]
        if os.path.basename(words[0]) == "env":
            name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
            found = find_program(name, self._path, self._roots) if name else None
            if found is not None:
                yield found


def _steps(path: str) -> Iterator[tuple[str, str]]:
    """Yield a path and what it links to, one link after the other: as it is named, and with its folder resolved."""
    for _ in range(_MAX_LINKS):
        step = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        yield path, step
        if not os.path.islink(step):
            return
        path = os.path.join(os.path.dirname(step), os.readlink(step))


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _base_of_environment(prefix: str) -> str:
    """Return the installation that a virtual environment is based on; empty for a folder that is not one."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = file.read(10_000).splitlines()
    except OSError:
        return ""
    pairs = (line.partition("=") for line in lines)
    home = next((value.strip() for name, _, value in pairs if name.strip() == "home"), "")
    return os.path.dirname(os.path.normpath(home)) if os.path.isabs(home) else ""


def _is_installation(prefix: str) -> bool:
    """Return whether a folder holds an installation of Python or Node."""
    library = os.path.join(prefix, "lib")
    if os.path.isfile(os.path.join(prefix, "bin", "node")) and os.path.isdir(os.path.join(library, "node_modules")):
        return True
    return any(os.path.isfile(os.path.join(folder, "os.py")) for folder in _python_libraries(library))


def _python_libraries(library: str) -> list[str]:
    try:
        return [os.path.join(library, name) for name in os.listdir(library) if name.startswith(("python3", "pypy3"))]
    except OSError:
        return []


def _linked_by(prefix: str) -> Iterator[str]:
    """Yield the folders that the `.pth` files of a virtual environment name: packages installed as editable."""
    for library in _python_libraries(os.path.join(prefix, "lib")):
        site = os.path.join(library, "site-packages")
        if os.path.isdir(site):
            yield from (folder for folder in pth_folders(site, os.stat(site).st_mtime_ns) if os.path.isdir(folder))
