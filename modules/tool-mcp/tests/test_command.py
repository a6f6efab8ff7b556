"""Package runners start what is installed: from their caches, their tools, or the environment of a project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_module_tool_mcp.command import Command, Places, installed_command
from amplifier_module_tool_mcp.faults import ServerFault

Resolve = Callable[..., Command]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return the user's home folder."""
    return tmp_path / "user"


@pytest.fixture
def resolve(user: Path, tmp_path: Path) -> Resolve:
    """Give `resolve(line, network=False, **environment)`: what is started for a command line, its program in /x/bin."""

    def resolved(line: str, *, network: bool = False, folder: str = "/project", **environment: str) -> Command:
        program, *arguments = line.split()
        places = Places(user, environment, tmp_path / "own")
        return installed_command(f"/x/bin/{program}", arguments, folder=folder, places=places, network=network)

    return resolved


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def _npm_package(tree: Path, name: str, version: str, programs: Any, *, is_complete: bool = True) -> Path:
    """Install a package into a `node_modules` folder, and return the folder of the package."""
    for file in [programs] if isinstance(programs, str) else programs.values():
        _program(tree / name / file)
    described = {"name": name, "version": version, "bin": programs}
    (tree / name / "package.json").write_text(json.dumps(described), encoding="utf-8")
    if is_complete:
        (tree / ".package-lock.json").write_text("{}", encoding="utf-8")
    return tree / name


def _environment(folder: Path, name: str, version: str) -> Path:
    """Make a virtual environment with a package and its program, and return the program."""
    (folder / "lib" / "python3.12" / "site-packages" / f"{name.replace('-', '_')}-{version}.dist-info").mkdir(
        parents=True
    )
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    return _program(folder / "bin" / name)


@pytest.mark.parametrize("line", ["node server.js", "python -m server", "uvicorn app", "npm run server", "pipx list"])
def test_other_programs(resolve: Resolve, line: str) -> None:
    """Every other command is started as it is."""
    program, *arguments = line.split()
    assert resolve(line) == Command([f"/x/bin/{program}", *arguments])


# -- npx --


@pytest.mark.parametrize(
    "line", ["npx -y @scope/server", "npx --yes -- @scope/server@latest", "npm exec -y @scope/server"]
)
def test_npx(resolve: Resolve, user: Path, line: str) -> None:
    """A package in the cache of npx is started directly, with the arguments behind its name."""
    folder = _npm_package(user / ".npm/_npx/0/node_modules", "@scope/server", "1.2.0", {"mcp-server": "dist/index.js"})
    assert resolve(f"{line} --root .").argv == [str(folder / "dist/index.js"), "--root", "."]


def test_npx_takes_the_latest(resolve: Resolve, user: Path) -> None:
    """Of several installations the one that was made last counts, of a version that is named that one."""
    old = _npm_package(user / ".npm/_npx/0/node_modules", "server", "1.0.0", "cli.js")
    new = _npm_package(user / ".npm/_npx/1/node_modules", "server", "2.0.0", "cli.js")
    os.utime(old.parent / ".package-lock.json", (1, 1))
    assert resolve("npx server").argv == [str(new / "cli.js")]
    assert resolve("npx server@1.0.0").argv == [str(old / "cli.js")]
    with pytest.raises(ServerFault):
        resolve("npx server@3.0.0")


def test_npx_leaves_half_an_installation(resolve: Resolve, user: Path) -> None:
    """What npm has not finished to install does not count."""
    _npm_package(user / ".npm/_npx/0/node_modules", "server", "1.0.0", "cli.js", is_complete=False)
    with pytest.raises(ServerFault):
        resolve("npx -y server")


@pytest.mark.parametrize("file", ["../../../../../../work/tool", "{work}/tool"])
def test_npx_starts_nothing_outside_of_a_package(resolve: Resolve, tmp_path: Path, file: str) -> None:
    """What a server has written into its own cache names no program elsewhere, around which more would be shown."""
    _program(tmp_path / "work" / "tool")
    tree = tmp_path / "own" / "npm/_npx/0/node_modules"
    folder = _npm_package(tree, "server", "1.0.0", "cli.js")
    described = {"name": "server", "version": "1.0.0", "bin": file.replace("{work}", str(tmp_path / "work"))}
    (folder / "package.json").write_text(json.dumps(described), encoding="utf-8")
    assert os.access(folder / described["bin"], os.X_OK)
    with pytest.raises(ServerFault):
        resolve("npx server")


def test_npx_chooses_the_program(resolve: Resolve, user: Path) -> None:
    """Of several programs the one named like the package is started, or the one that is asked for."""
    programs = {"server": "server.js", "other": "other.js"}
    folder = _npm_package(user / ".npm/_npx/0/node_modules", "@scope/server", "1.0.0", programs)
    assert resolve("npx @scope/server").argv == [str(folder / "server.js")]
    assert resolve("npx -p @scope/server other x").argv == [str(folder / "other.js"), "x"]


def test_npx_uses_global_packages_and_other_caches(resolve: Resolve, user: Path, tmp_path: Path) -> None:
    """Packages that `npm install --global` put beside the node on PATH count, and a cache that a variable names."""
    _program(tmp_path / "node/bin/node")
    path = f"{tmp_path}/node/bin"
    global_one = _npm_package(tmp_path / "node/lib/node_modules", "server", "1.0.0", "cli.js")
    assert resolve("npx -y server", PATH=path).argv == [str(global_one / "cli.js")]
    cached = _npm_package(tmp_path / "cache/_npx/0/node_modules", "server", "1.0.0", "cli.js")
    assert resolve("npx -y server", PATH=path, npm_config_cache=f"{tmp_path}/cache").argv == [str(cached / "cli.js")]


# -- uvx and pipx --


@pytest.mark.parametrize(
    "line",
    [
        "uvx my-server",
        "uvx my-server@1.2.0",
        "uvx my_server@latest",
        "uv tool run my-server",
        "uvx --from my-server==1.2.0 my-server",
        "uvx --quiet --from my-server[extra] my-server",
    ],
)
@pytest.mark.parametrize("place", [".local/share/uv/tools/my-server", ".cache/uv/archive-v0/x"])
def test_uvx(resolve: Resolve, user: Path, line: str, place: str) -> None:
    """An installed tool is started, or the program in an environment of the cache."""
    program = _environment(user / place, "my-server", "1.2.0")
    if "cache" in place:
        (user / ".cache/uv/environments-v2/python").mkdir(parents=True)
        (user / ".cache/uv/environments-v2/python/server").symlink_to(user / place)
    if "my_server" in line:
        _program(program.with_name("my_server"))
    argv = resolve(f"{line} --utc").argv
    assert (Path(argv[0]).parent.resolve(), argv[1:]) == (program.parent, ["--utc"])


def test_uvx_in_another_version(resolve: Resolve, user: Path) -> None:
    """An installation of another version than the one that is asked for does not count."""
    _environment(user / ".local/share/uv/tools/server", "server", "1.0.0")
    with pytest.raises(ServerFault, match=r"server is not installed"):
        resolve("uvx server@2.0.0")


@pytest.mark.parametrize("place", [".local/share/pipx/venvs/server", ".local/pipx/venvs/server", ".cache/pipx/0a1b"])
def test_pipx(resolve: Resolve, user: Path, place: str) -> None:
    """`pipx run` starts what pipx has installed or cached."""
    program = _environment(user / place, "server", "1.0.0")
    assert resolve("pipx run server -v").argv == [str(program), "-v"]
    assert resolve("pipx run --spec server==1.0.0 server").argv == [str(program)]


# -- uv run --


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("uv --directory {0} run server.py a", ["{0}/.venv/bin/python", "{0}/server.py", "a"]),
        ("uv run --directory={0} my-server", ["{0}/.venv/bin/my-server"]),
        ("uv run --project {0} --no-sync my-server", ["{0}/.venv/bin/my-server"]),
        ("uv run --project {0} -m my.server -v", ["{0}/.venv/bin/python", "-m", "my.server", "-v"]),
    ],
)
def test_uv_run(resolve: Resolve, tmp_path: Path, line: str, expected: list[str]) -> None:
    """A command of a project runs in the environment that uv has made there, and in the folder that is named."""
    for name in ("python", "my-server"):
        _program(tmp_path / "src/.venv/bin" / name)
    command = resolve(line.format(tmp_path / "src"))
    assert command.argv == [each.format(tmp_path / "src") for each in expected]
    assert command.folder == (str(tmp_path / "src") if "--directory" in line else "")


# -- what is not installed --


@pytest.mark.parametrize(
    ("line", "install"),
    [
        ("npx -y @scope/server", "npm install --global @scope/server"),
        ("uvx my-server", "uv tool install my-server"),
        ("pipx run my-server", "pipx install my-server"),
    ],
)
def test_a_package_that_is_not_installed(resolve: Resolve, line: str, install: str) -> None:
    """Without a network it cannot be installed: the fault says so, how to install it, and how to allow a network."""
    with pytest.raises(ServerFault) as caught:
        resolve(line)
    fault = caught.value
    assert (fault.code, fault.may_pass) == ("not_installed", False)
    assert fault.reason.endswith("this server's sandbox has no network")
    assert f"`{install}`" in fault.advice
    assert '"sandbox": {"network": true}' in fault.advice


@pytest.mark.parametrize(
    "line", ["uvx --with pandas server", "npx ./folder", "npx -c command", "uv run --with x y", "npx"]
)
def test_what_the_runner_has_to_find_out(resolve: Resolve, line: str) -> None:
    """Options that change what is installed are left to the runner, which needs a network."""
    with pytest.raises(ServerFault, match="would have to ask its package index"):
        resolve(line)
    assert resolve(line, network=True).argv[-1:] == line.split()[-1:] or line == "npx"


@pytest.mark.parametrize(
    ("line", "variable"),
    [("npx -y server", "npm_config_cache"), ("uvx server", "UV_CACHE_DIR"), ("pipx run x", "PIPX_HOME")],
)
def test_with_a_network(resolve: Resolve, tmp_path: Path, line: str, variable: str) -> None:
    """With a network the runner installs the package, into a cache of the server's own and never into the user's."""
    command = resolve(line, network=True)
    assert command.argv == [f"/x/bin/{line.split()[0]}", *line.split()[1:]]
    assert command.writable == (str(tmp_path / "own"),)
    assert command.environment[variable].startswith(f"{tmp_path}/own/")


def test_what_a_network_has_installed(resolve: Resolve, tmp_path: Path) -> None:
    """What is in the server's own cache is started directly the next time; the cache stays the server's to write."""
    folder = _npm_package(tmp_path / "own/npm/_npx/0/node_modules", "server", "1.0.0", "cli.js")
    assert resolve("npx -y server") == Command([str(folder / "cli.js")], writable=(str(tmp_path / "own"),))
