"""The sandbox shows what a program needs to run, wherever it is installed, and nothing that is not a program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.program_paths import ProgramPaths, program_paths, script_of
from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]
Find = Callable[..., ProgramPaths]


@pytest.fixture
def find(home: Path, project: Path) -> Find:
    """Give `find(*argv, roots=(), hidden=())`: what a command needs, in a home folder with a project."""

    def found(*argv: str | Path, roots: tuple[Path, ...] = (), hidden: tuple[Path, ...] = ()) -> ProgramPaths:
        return program_paths(
            [str(each) for each in argv],
            path=f"{home}/tools/bin:{os.defpath}",
            home=str(home),
            roots=[str(project), *map(str, roots)],
            hidden=[str(each) for each in hidden],
        )

    return found


def _write(path: Path, text: str = "", *, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def _program(path: Path, first_line: str = "#!/bin/sh") -> Path:
    return _write(path, f"{first_line}\n", mode=0o755)


def _installation(prefix: Path) -> Path:
    """Make what looks like an installation of Python, and return its interpreter."""
    _write(prefix / "lib" / "python3.11" / "os.py")
    return _program(prefix / "bin" / "python3.11")


def _environment(prefix: Path, python: Path) -> Path:
    """Make what looks like a virtual environment, and return its interpreter."""
    _write(prefix / "pyvenv.cfg", f"home = {python.parent}\n")
    (prefix / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(python)
    return prefix / "bin" / "python"


# -- what is shown --


def test_a_console_script_of_an_environment(find: Find, home: Path) -> None:
    """A script shows its environment, and the installation that the environment is based on."""
    python = _installation(home / "pythons" / "3.11")
    inner = _environment(home / "tools" / "venv", python)
    script = _program(home / "tools" / "venv" / "bin" / "server", f"#!{inner}")
    assert set(find(script).paths) == {str(home / "tools" / "venv"), str(home / "pythons" / "3.11")}


def test_a_program_behind_links(find: Find, home: Path) -> None:
    """A link to an installed tool shows the tool, which is started by the first path that is visible."""
    python = _installation(home / "pythons" / "3.11")
    inner = _environment(home / ".local" / "share" / "uv" / "tools" / "server", python)
    script = _program(inner.parent / "server", f"#!{inner}")
    (home / ".local" / "bin").mkdir()
    link = home / ".local" / "bin" / "server"
    link.symlink_to(os.path.relpath(script, link.parent))
    found = find(link)
    assert found.program == str(script)
    assert set(found.paths) == {str(inner.parent.parent), str(home / "pythons" / "3.11")}


def test_an_interpreter_of_an_environment_keeps_its_name(find: Find, home: Path) -> None:
    """The interpreter of an environment is started by its path there: behind the link it would be another one."""
    python = _environment(home / "venv", _installation(home / "pythons" / "3.11"))
    assert find(python, "-m", "server").program == str(python)


def test_a_package_that_is_installed_as_editable(find: Find, home: Path) -> None:
    """The folders that an environment's `.pth` files name are shown too."""
    python = _environment(home / "venv", _installation(home / "pythons" / "3.11"))
    source = _write(home / "src" / "server" / "server.py").parent
    _write(home / "venv" / "lib" / "python3.11" / "site-packages" / "server.pth", f"{source}\n")
    assert str(source) in find(python).paths


def test_a_program_of_node(find: Find, home: Path) -> None:
    """A program in `.bin` shows the outermost `node_modules`, and the installation of the node on PATH."""
    _program(home / "tools" / "bin" / "node")
    (home / "tools" / "lib" / "node_modules").mkdir(parents=True)
    modules = home / "servers" / "node_modules"
    script = _program(modules / "@scope" / "server" / "node_modules" / "x" / "index.js", "#!/usr/bin/env -S node")
    (modules / ".bin").mkdir()
    (modules / ".bin" / "server").symlink_to(script)
    found = find(modules / ".bin" / "server")
    assert (found.program, set(found.paths)) == (
        str(modules / ".bin" / "server"),
        {str(modules), str(home / "tools")},
    )


def test_a_script_for_an_interpreter(find: Find, home: Path) -> None:
    """`node FILE` shows the package of the file and the modules of the repository around it; `cat FILE` nothing."""
    script = _write(home / "repo" / "packages" / "server" / "dist" / "index.js")
    _write(home / "repo" / "packages" / "server" / "package.json", "{}")
    (home / "repo" / "node_modules").mkdir()
    shown = {str(home / "repo" / "packages" / "server"), str(home / "repo" / "node_modules")}
    assert set(find("/usr/bin/node", script).paths) == shown
    assert find("/usr/bin/cat", script).paths == ()


def test_a_single_file(find: Find, home: Path) -> None:
    """A program that belongs to no package is shown alone, not the folder that it lies in."""
    script = _write(home / "documents" / "server.py")
    assert find("/usr/bin/python3", "-u", script).paths == (str(script),)
    program = _program(home / "documents" / "server")
    assert find(program).paths == (str(program),)


def test_programs_of_the_system_and_the_project(find: Find, project: Path) -> None:
    """What is visible anyway is not shown again."""
    assert find("/usr/bin/env").paths == ()
    assert find(_program(project / "bin" / "server")).paths == ()


def test_scripts() -> None:
    """The script of a command is its first file, if the program is an interpreter."""
    folder, name = os.path.split(__file__)
    assert script_of(["/x/python3.12", "-I", name, "other"], folder) == __file__
    assert script_of(["/x/server", name], folder) == ""
    assert script_of(["/x/python", "-m", "server"], folder) == ""


# -- what is never shown --


@pytest.mark.parametrize("place", [".ssh/run", ".aws/bin/run", ".config/gh/run", "secrets/bin/run"])
def test_a_program_among_secrets(find: Find, home: Path, place: str) -> None:
    """Nothing in a folder with keys is shown, not even as a single file."""
    assert find(_program(home / place), hidden=(home / "secrets",)).paths == ()


@pytest.mark.parametrize("mark", ["package.json", "pyproject.toml", ".git"])
def test_a_home_folder_that_is_a_package(find: Find, home: Path, mark: str) -> None:
    """The home folder is never shown whole, nor is a folder above it, whatever lies in it."""
    for folder in (home, home.parent):
        _write(folder / mark)
    script = _write(home / "server.js")
    assert find("/usr/bin/node", script).paths == (str(script),)
    _write(home / "pyvenv.cfg", "home = /usr/bin\n")
    assert str(home) not in find(_program(home / "bin" / "server")).paths


def test_a_folder_that_holds_secrets(find: Find, home: Path) -> None:
    """A package around a folder with keys is not shown; its program is."""
    _write(home / ".config" / "package.json", "{}")
    script = _write(home / ".config" / "server.js")
    assert find("/usr/bin/node", script).paths == (str(script),)


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/self/environ", "/run/secrets/key"])
def test_files_that_are_no_programs(find: Find, path: str) -> None:
    """A path in the system's own folders shows nothing there."""
    assert find(path).paths == ()
    assert find("/usr/bin/python3", path).paths == ()


@pytest.mark.parametrize("target", ["/", "/etc", "~", "~/.ssh", "~/private"])
def test_a_link_in_the_project(find: Find, home: Path, project: Path, target: str) -> None:
    """A link in the project, which a command may have made, shows nothing of what it leads to."""
    _program(home / "private" / "run")
    (home / ".ssh").mkdir()
    _write(home / "private" / "package.json", "{}")
    (project / "node_modules").symlink_to(target.replace("~", str(home)))
    (project / "run").symlink_to(f"{target.replace('~', str(home))}/run")
    for path in (project / "node_modules" / "run", project / "run"):
        assert find(path).paths == ()
        assert find("/usr/bin/node", path).paths == ()


def test_what_the_files_of_a_project_name(find: Find, home: Path, project: Path) -> None:
    """Neither the first line of a script, nor an environment's base, nor its `.pth` files open private folders."""
    private = _program(home / "private" / "bin" / "python")
    _write(home / "private" / "package.json", "{}")
    assert find(_program(project / "server", f"#!{private}")).paths == ()
    _write(project / "venv" / "pyvenv.cfg", f"home = {private.parent}\n")
    _write(project / "venv" / "lib" / "python3.11" / "site-packages" / "x.pth", f"{private.parent}\n")
    _program(project / "venv" / "bin" / "python")
    assert find(project / "venv" / "bin" / "python").paths == ()


def test_packages_above_a_script_of_the_project(find: Find, home: Path, project: Path) -> None:
    """Where Node looks for packages above a script, a link that a command may have made shows nothing."""
    _write(home / "private" / "package.json", "{}")
    (project / "node_modules").symlink_to(home / "private")
    _write(project / "packages" / "server" / "package.json", "{}")
    assert find("/usr/bin/node", _write(project / "packages" / "server" / "index.js")).paths == ()


def test_an_editable_package_that_became_a_link(find: Find, home: Path, project: Path) -> None:
    """An environment may name a folder of the project; a link in its place shows nothing of what it leads to."""
    python = _environment(home / "venv", _installation(home / "pythons" / "3.11"))
    _write(home / "private" / "diary")
    (project / "src").symlink_to(home / "private")
    _write(home / "venv" / "lib" / "python3.11" / "site-packages" / "server.pth", f"{project}/src\n")
    assert set(find(python, "-m", "server").paths) == {str(home / "venv"), str(home / "pythons" / "3.11")}


def test_a_file_that_is_data_of_the_program(find: Find, home: Path) -> None:
    """`python -m SERVER --file FILE` shows neither the file nor the repository that it lies in."""
    _write(home / "work" / ".git" / "HEAD")
    data = _write(home / "work" / "data.db")
    assert find("/usr/bin/python3", "-m", "server", "--file", data).paths == ()
    assert find("/usr/bin/node", "-e", "0", data).paths == ()
    script = _write(home / "documents" / "server.js")
    assert find("/usr/bin/node", script, "-p", "8080").paths == (str(script),)


def test_an_environment_in_the_project(find: Find, home: Path, project: Path) -> None:
    """An environment of the project shows the installation of Python that it is based on, and nothing else."""
    python = _environment(project / ".venv", _installation(home / "pythons" / "3.11"))
    assert find(_program(project / ".venv" / "bin" / "server", f"#!{python}")).paths == (
        str(home / "pythons" / "3.11"),
    )


def test_a_link_in_another_writable_folder(make_box: MakeBox, home: Path) -> None:
    """A link that a program has put in a folder of its own shows nothing of what it leads to."""
    _write(home / "private" / "package.json", "{}")
    _program(home / "private" / "run", "#!/bin/sh\necho secret words")
    modules = home / "cache" / "node_modules" / "server"
    modules.mkdir(parents=True)
    (modules / "run").symlink_to(home / "private" / "run")
    box, argv = make_box(), [str(modules / "run")]
    for writable, text in (((), "secret words\n"), ((str(home / "cache"),), "")):
        wrapped, environment = box.wrap(argv, writable=writable, shows_program=True)
        assert subprocess.run(wrapped, env=environment, capture_output=True, text=True, check=False).stdout == text


def test_a_link_that_leads_in_circles(find: Find, home: Path) -> None:
    """Links without an end are not followed for ever."""
    (home / "a").symlink_to(home / "b")
    (home / "b").symlink_to(home / "a")
    assert find(home / "a").paths == ()


# -- in the sandbox --


def test_it_runs(make_box: MakeBox, home: Path) -> None:
    """A script of a real environment in the home folder runs; what lies beside the environment is not shown."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "tools" / "venv")], check=True)
    inner = home / "tools" / "venv" / "bin" / "python"
    _write(home / "tools" / "diary", "secret words")
    text = f"import os, sys\nprint(sys.prefix)\nprint(os.path.exists('{home}/tools/diary'))"
    script = _program(inner.parent / "server", f"#!{inner}\n{text}")
    argv, environment = make_box().wrap([str(script)], environment={"PATH": os.defpath}, shows_program=True)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([str(home / "tools" / "venv"), "False"], "")


def test_it_is_read_only(make_box: MakeBox, home: Path) -> None:
    """What a program needs cannot be changed by it."""
    _write(home / "tools" / "server" / "package.json", "{}")
    script = _program(home / "tools" / "server" / "run", '#!/bin/sh\ntouch "$(dirname "$0")/made"')
    argv, environment = make_box().wrap([str(script)], shows_program=True)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert "Read-only file system" in done.stderr
    assert not (home / "tools" / "server" / "made").exists()


def test_secrets_in_a_package(make_box: MakeBox, home: Path, tmp_path: Path) -> None:
    """A folder that the app hides stays hidden, and keeps the package around it from being shown."""
    keys = _write(tmp_path / "pack" / "keys" / "key", "secret words").parent
    _write(tmp_path / "pack" / "package.json", "{}")
    script = _program(tmp_path / "pack" / "run", f"#!/bin/sh\ncat '{keys}/key'")
    argv, environment = make_box(hidden=(keys,)).wrap([str(script)], shows_program=True)
    done: Any = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert "secret words" not in done.stdout
    assert "No such file" in done.stderr


def test_what_a_command_cannot_see(make_box: MakeBox, home: Path, project: Path) -> None:
    """The paths that the latest command cannot see are known, with those that do not exist left out."""
    box = make_box()
    box.wrap([shutil.which("true") or "/bin/true"])
    (home / "documents").mkdir()
    paths = ["/usr/bin", str(project), str(home / "documents"), str(home / "nothing")]
    assert box.not_visible(paths) == [str(home / "documents")]
