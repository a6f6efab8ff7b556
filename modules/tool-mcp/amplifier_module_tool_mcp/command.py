"""Turn the command of an entry into the program to start: looked up on PATH, and behind npx, uvx, pipx and uv.

Package runners cannot work in the sandbox: they write to their caches and ask their index. Where a package is installed
already, its own program is started instead, from the runner's cache or its installed tools. Where it is not, the runner
itself is started if the sandbox has a network, with a cache of its own; else the fault says what is missing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.guard.processes.programs import is_below
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_mcp.faults import ServerFault

#: Options of the runners that change nothing about which program is started.
_HARMLESS: Final = frozenset(
    (
        *("-y", "--yes", "-q", "--quiet", "-s", "--silent", "--offline", "--prefer-offline", "--no-install"),
        *("--no-sync", "--frozen", "--locked", "--no-progress", "--native-tls", "--no-python-downloads"),
    )
)
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+!-]*")
_NPM_NAME: Final = re.compile(r"(@[a-z0-9~._-]+/)?[a-z0-9~._-]+", re.IGNORECASE)
_PYTHON_NAME: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[A-Za-z0-9._, -]*\])?\s*(?:(?:==|@)\s*(\S+))?")


@dataclass(frozen=True)
class Package:
    """A package that a runner is to run: its version if a certain one is wanted, its program, and the arguments."""

    name: str
    version: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()


class Runner(NamedTuple):
    """A program that installs a package, if need be, and runs it."""

    #: Raises ValueError for options that the runner itself has to understand.
    parse: Callable[[Sequence[str]], Package]
    #: Yields the commands of the installations that there are, the preferred one first.
    installed: Callable[[Package, str, Places], Iterator[list[str]]]
    #: Environment variables of its caches, each with a folder in the cache of the server.
    caches: Mapping[str, str]
    #: The command that installs a package for good.
    install: str


@dataclass(frozen=True)
class Places:
    """Where installed packages are: the home folder, the user's environment, and the cache of the server."""

    home: Path
    environment: Mapping[str, str]
    own_cache: Path

    def folder(self, *variables: str, default: str) -> Path:
        """Return the folder that the first of these variables names, else one below the home folder."""
        for variable in variables:
            name, _, rest = variable.partition("/")
            if os.path.isabs(value := self.environment.get(name, "")):
                return Path(value) / rest
        return self.home / default


@dataclass(frozen=True)
class Command:
    """What to start, the folder to start it in if it is another one, and what it needs for that."""

    argv: list[str]
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()


def installed_command(program: str, arguments: Sequence[str], *, folder: str, places: Places, network: bool) -> Command:
    """Return what to start for a program and its arguments in the sandbox; most programs as they are.

    Raises ServerFault for a package that would have to be installed when there is no network.
    """
    name, rest = os.path.basename(program), list(arguments)
    if name == "npm" and rest[:1] in (["exec"], ["x"]):
        name, rest = "npx", rest[1:]
    if name == "uv" and rest[:2] == ["tool", "run"]:
        name, rest = "uvx", rest[2:]
    if name == "uv":
        return _project_command(program, rest, folder) or _by_the_runner(program, arguments, places, _UVX, network, "")
    runner = _RUNNERS.get(name)
    if runner is None or (name == "pipx" and rest[:1] != ["run"]):
        return Command([program, *arguments])
    try:
        package = runner.parse(rest)
    except ValueError:
        return _by_the_runner(program, arguments, places, runner, network, "")
    for argv in runner.installed(package, program, places):
        # Its own cache is the server's, which may have put links there: it is a folder that commands can write.
        is_own = is_below(argv[0], str(places.own_cache))
        writable = (str(places.own_cache),) if is_own else ()
        return Command([*argv, *package.arguments], writable=writable)
    return _by_the_runner(program, arguments, places, runner, network, package.name)


def _by_the_runner(
    program: str, arguments: Sequence[str], places: Places, runner: Runner, network: bool, package: str
) -> Command:
    """Return the runner's own command, which may install the package; raises ServerFault without a network."""
    name = os.path.basename(program)
    if not network:
        allow = 'set `"sandbox": {"network": true}` in its entry'
        if package:
            reason = f"{package} is not installed, and {name} cannot install it: this server's sandbox has no network"
            raise ServerFault("not_installed", reason, f"Install it with `{runner.install} {package}`, or {allow}")
        reason = f"{name} would have to ask its package index, and this server's sandbox has no network"
        raise ServerFault("not_installed", reason, f"Name the installed program instead, or {allow}")
    if name == "uvx" and os.access(uv := os.path.join(os.path.dirname(program), "uv"), os.X_OK):
        program, arguments = uv, ["tool", "run", *arguments]
    cache = places.own_cache
    variables = {variable: str(cache / below) for variable, below in runner.caches.items()}
    return Command([program, *arguments], environment=variables, writable=(str(cache),))


# -- npx --


def _parse_npx(arguments: Sequence[str]) -> Package:
    options, rest = _options(arguments, takes_value=("-p", "--package"))
    wanted = options.get("-p") or options.get("--package") or (rest[0] if rest else "")
    name, at, version = wanted[1:].partition("@") if wanted.startswith("@") else wanted.partition("@")
    name = f"@{name}" if wanted.startswith("@") else name
    if not _NPM_NAME.fullmatch(name) or (at and version != "latest" and not _VERSION.fullmatch(version)):
        raise ValueError(f"no plain name of a package: {wanted!r}")
    program = rest[0] if options else ""
    return Package(name, version if version != "latest" else "", program, tuple(rest[1:]))


def _installed_by_npx(package: Package, npx: str, places: Places) -> Iterator[list[str]]:
    cache = places.folder("npm_config_cache", "NPM_CONFIG_CACHE", default=".npm")
    # npm writes this file when everything is installed.
    done = "_npx/*/node_modules/.package-lock.json"
    lists = [*_newest(places.own_cache.glob(f"npm/{done}")), *_newest(cache.glob(done))]
    trees = [path.parent for path in lists]
    prefixes = [Path(npx).parent.parent, *(folder.parent for folder in _bin_folders(places)), Path("/usr/local")]
    trees += [prefix / "lib" / "node_modules" for prefix in dict.fromkeys(prefixes)]
    for tree in trees:
        description = _read_json(tree / package.name / "package.json")
        version = description.get("version")
        if not isinstance(version, str) or package.version not in ("", version):
            continue
        if (program := _npm_program(tree / package.name, description, package)) is not None:
            yield program


def _npm_program(folder: Path, description: Mapping[str, Any], package: Package) -> list[str] | None:
    """Return the command of a package: its only one, else the one that is named like it or was asked for."""
    programs = description.get("bin")
    own = package.name.rpartition("/")[2]
    if isinstance(programs, str):
        programs = {own: programs}
    if not isinstance(programs, dict) or not programs:
        return None
    name = package.program or (next(iter(programs)) if len(set(programs.values())) == 1 else own)
    file = programs.get(name)
    if not isinstance(file, str):
        return None
    # The description may be the server's own work: no program outside of its package.
    path = os.path.normpath(folder / file)
    return [path] if is_below(path, str(folder)) and os.access(path, os.X_OK) else None


# -- uvx and pipx --


def _parse_uvx(arguments: Sequence[str]) -> Package:
    options, rest = _options(arguments, takes_value=("--from",))
    return _python_package(options.get("--from", ""), rest)


def _parse_pipx(arguments: Sequence[str]) -> Package:
    options, rest = _options(arguments[1:], takes_value=("--spec",))
    return _python_package(options.get("--spec", ""), rest)


def _python_package(source: str, rest: Sequence[str]) -> Package:
    found = _PYTHON_NAME.fullmatch(source or (rest[0] if rest else ""))
    version = (found[2] or "") if found else ""
    if found is None or (version not in ("", "latest") and not _VERSION.fullmatch(version)):
        raise ValueError("no plain name of a package")
    program = rest[0] if source and rest else found[1]
    return Package(found[1], version if version != "latest" else "", program, tuple(rest[1:]))


def _installed_by_uvx(package: Package, uvx: str, places: Places) -> Iterator[list[str]]:
    tools = places.folder("UV_TOOL_DIR", "XDG_DATA_HOME/uv/tools", default=".local/share/uv/tools")
    cache = places.folder("UV_CACHE_DIR", "XDG_CACHE_HOME/uv", default=".cache/uv")
    cached = [
        environment
        for folder in (places.own_cache / "uv", cache)
        for environment in _newest([*folder.glob("environments-v*/*"), *folder.glob("environments-v*/*/*")])
    ]
    yield from _python_programs([tools / _normalized(package.name), *cached], package)


def _installed_by_pipx(package: Package, pipx: str, places: Places) -> Iterator[list[str]]:
    homes = [
        places.own_cache / "pipx",
        places.folder("PIPX_HOME", "XDG_DATA_HOME/pipx", default=".local/share/pipx"),
        places.home / ".local" / "pipx",
    ]
    caches = [*(home / ".cache" for home in homes), places.folder("XDG_CACHE_HOME/pipx", default=".cache/pipx")]
    installed = [home / "venvs" / _normalized(package.name) for home in homes]
    cached = [environment for cache in caches for environment in _newest(cache.glob("*"))]
    yield from _python_programs([*installed, *cached], package)


def _python_programs(environments: Iterable[Path], package: Package) -> Iterator[list[str]]:
    """Yield the program of a package in each virtual environment that has it, in the wanted version."""
    name = _normalized(package.name).replace("-", "_")
    for environment in environments:
        program = environment / "bin" / package.program
        if not (environment / "pyvenv.cfg").is_file() or not os.access(program, os.X_OK):
            continue
        for folder in environment.glob("lib/python3*/site-packages/*.dist-info"):
            installed, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            if _normalized(installed).replace("-", "_") == name and package.version in ("", version):
                yield [str(program)]
                break


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- uv run --


def _project_command(uv: str, arguments: Sequence[str], folder: str) -> Command | None:
    """Return the command that `uv run` would start in the environment of a project; None if uv has to find out."""
    takes_value = ("--directory", "--project", "-m", "--module")
    try:
        outer, rest = _options(arguments, takes_value=takes_value)
        if rest[:1] != ["run"]:
            return None
        inner, rest = _options(rest[1:], takes_value=takes_value)
    except ValueError:
        return None
    given = {**outer, **inner}
    start = os.path.join(folder, os.path.expanduser(given.get("--directory", "")))
    project = os.path.normpath(os.path.join(start, os.path.expanduser(given.get("--project", ""))))
    programs = os.path.join(project, ".venv", "bin")
    where = os.path.normpath(start) if "--directory" in given else ""
    if (module := given.get("-m") or given.get("--module")) is not None:
        argv = [os.path.join(programs, "python"), "-m", module, *rest]
    elif rest and rest[0].endswith(".py"):
        argv = [os.path.join(programs, "python"), os.path.normpath(os.path.join(start, rest[0])), *rest[1:]]
    elif rest and os.sep not in rest[0]:
        argv = [os.path.join(programs, rest[0]), *rest[1:]]
    else:
        return None
    return Command(argv, folder=where) if os.access(argv[0], os.X_OK) else None


# -- helpers --


def _options(arguments: Sequence[str], *, takes_value: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options with a value and what follows the options; raises ValueError for others than harmless ones."""
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option == "--":
            break
        if option in takes_value:
            if not equals and not rest:
                raise ValueError(f"{option} has no value")
            given[option] = value if equals else rest.pop(0)
            if option in ("-m", "--module"):
                break
        elif option not in _HARMLESS:
            raise ValueError(f"{option} is for the runner itself")
    return given, rest


def _newest(folders: Iterable[Path]) -> list[Path]:
    """Return folders, the one that was changed last first."""
    dated = []
    for folder in folders:
        try:
            dated.append((folder.stat().st_mtime_ns, folder))
        except OSError:
            continue  # it was removed meanwhile
    return [folder for _, folder in sorted(dated, reverse=True)]


def _bin_folders(places: Places) -> Iterator[Path]:
    for entry in places.environment.get("PATH", "").split(os.pathsep):
        if os.path.isabs(entry) and os.path.exists(os.path.join(entry, "node")):
            yield Path(entry)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


_UVX: Final = Runner(
    _parse_uvx,
    _installed_by_uvx,
    {"UV_CACHE_DIR": "uv", "UV_TOOL_DIR": "uv-tools", "UV_PYTHON_INSTALL_DIR": "uv-python"},
    "uv tool install",
)
_RUNNERS: Final[Mapping[str, Runner]] = {
    "npx": Runner(_parse_npx, _installed_by_npx, {"npm_config_cache": "npm"}, "npm install --global"),
    "uvx": _UVX,
    "pipx": Runner(_parse_pipx, _installed_by_pipx, {"PIPX_HOME": "pipx", "PIP_CACHE_DIR": "pip"}, "pipx install"),
}
