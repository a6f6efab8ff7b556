"""The product installs, upgrades and goes away as docs/install.md says, in an empty home.

The page is the script: each of its sections is run, command by command as written there, and after each block the check
of its heading looks at what has come of it. A heading without a check, or a command outside of the blocks, fails.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs" / "install.md"
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
NEXT = "{}.{}.{}".format(*VERSION.split(".")[:2], int(VERSION.split(".")[2]) + 1)
MODULES = sorted(path.parent.name for path in ROOT.glob("modules/*/pyproject.toml"))
SETTING = "overrides.loop-streaming.config.max_iterations"
#: What an installer may need from the environment; everything else, such as keys of models, stays outside.
PASSED_ON = re.compile(r"PIP_|UV_|SSL_|REQUESTS_|CURL_|LANG$|LC_|(https?|no|all)_proxy$", flags=re.IGNORECASE)
#: Of those, what would point at the environment that runs the tests.
HELD_BACK = re.compile(r"UV_(TOOL|PYTHON|PROJECT|CONSTRAINT|BUILD_CONSTRAINT)|PIP_(TARGET|PREFIX|USER|CONSTRAINT)")

pytestmark = pytest.mark.timeout(1200)


# The page


@dataclass(frozen=True)
class Step:
    """One block of commands and the heading above it."""

    heading: str
    commands: str


@functools.cache
def _sections() -> dict[str, list[Step]]:
    """Return the sections of the page that have blocks of commands, and those blocks."""
    sections: dict[str, list[Step]] = {}
    section = heading = ""
    block: list[str] | None = None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if block is not None:
                sections.setdefault(section, []).append(Step(heading, "\n".join(block)))
            block = [] if block is None else None
        elif block is not None:
            block.append(line)
        elif found := re.match(r"(##|###) (.+)", line):
            section, heading = (found[2], "") if found[1] == "##" else (section, found[2])
    return sections


def _commands() -> list[str]:
    return [line for steps in _sections().values() for step in steps for line in step.commands.splitlines()]


def test_every_block_of_the_page_has_a_check() -> None:
    """Every block of docs/install.md is plain text under a heading that has a check, and no check is too many."""
    fences = re.findall(r"^```(.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(fences) == {"text"}
    assert {step.heading for steps in _sections().values() for step in steps} == CHECKS.keys()


def test_every_command_in_the_prose_is_one_of_the_blocks() -> None:
    """A command that docs/install.md mentions in a sentence is in a block too, where it is run."""
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    spans = {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)}
    mentioned = {span for span in spans if re.match(r"(amplifier[a-z-]*|uv|pip|git|python3?|make) ", span)}
    unproven = {span for span in mentioned if not any(line.startswith(span) for line in _commands())}
    # Advice against, and what is proven elsewhere: `amplifier init` by the tests of its own, `make dist` right here,
    # `make install` by the profile `fresh-machine` of the digital twin.
    assert unproven == {"pip --find-links dist", "amplifier init", "make dist", "make install"}
    [build] = {line for line in _commands() if line.startswith("uv build")}
    assert build.replace("uv", "$(UV)", 1) in (ROOT / "Makefile").read_text(encoding="utf-8")


# A clean environment


def _wheel(folder: Path, name: str, version: str, source: str, metadata: str = "", entry_points: str = "") -> Path:
    """Write a wheel with one package of one file."""
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}/__init__.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))
    return wheel


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def rival_index(tmp_path: Path) -> Iterator[str]:
    """Serve an index where others publish an amplifier-core: one of our very version, and a much newer one."""
    for version in (VERSION, "99.0.0"):
        _wheel(tmp_path / "rival" / "amplifier-core", "amplifier-core", version, "raise ImportError('not ours')\n")
    handler = functools.partial(_Silent, directory=str(tmp_path / "rival"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Machine:
    """A home with nothing in it, a repository to install from, and one shell that goes on from block to block."""

    def __init__(self, folder: Path, rival_index: str) -> None:
        self.home, self.work, self.repository = folder / "home", folder / "work", folder / "repository"
        self.rival_index = rival_index
        self.session = ""
        for path in (self.home, self.work, folder / "bin"):
            path.mkdir()
        (folder / "shell").touch()
        (folder / "bin" / "uv").symlink_to(BIN / "uv")
        (folder / "bin" / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
        programs = [str(Path(shutil.which(name) or name).parent) for name in ("bash", "git")]
        self.environment = {
            **{n: v for n, v in os.environ.items() if PASSED_ON.match(n) and not HELD_BACK.match(n)},
            **_configuration_of_the_clients(),
            "PATH": os.pathsep.join([str(folder / "bin"), str(self.home / ".local" / "bin"), *programs, os.defpath]),
            "HOME": str(self.home),
            "REPOSITORY": self.repository.as_uri(),
            "SHELL_STATE": str(folder / "shell"),
            "UV_PYTHON_DOWNLOADS": "never",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self._copy_the_work_tree()

    def _copy_the_work_tree(self) -> None:
        """Make a repository of the files that are here now, committed or not."""
        listed = _output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.repository / name)
        _output("git", "init", "--quiet", "--initial-branch", "main", cwd=self.repository)
        self._commit(VERSION)

    def _commit(self, message: str) -> None:
        author = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
        _output("git", "add", "--all", cwd=self.repository)
        _output("git", *author, "commit", "--quiet", "--message", message, cwd=self.repository)

    def release(self) -> None:
        """Commit a next version to the repository: the same, with a higher number everywhere."""
        for path in self.repository.rglob("*"):
            if path.suffix in {".py", ".toml", ".yaml"} and ".git" not in path.parts:
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace(VERSION, NEXT), encoding="utf-8")
        self._commit(NEXT)

    def run(self, commands: str, *, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run commands in the shell, with folder, variables and functions as the commands before have left them."""
        keep = """trap '{ export -p; declare -f; printf "cd %q\\n" "$PWD"; } > "$SHELL_STATE"' EXIT"""
        done = subprocess.run(
            ["bash", "-e", "-c", f'. "$SHELL_STATE"\n{keep}\n{commands}'],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not ok or done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done

    def ask(self, arguments: str) -> Any:
        """Run the program and return the JSON it prints."""
        return json.loads(self.run(f"amplifier {arguments}").stdout)

    def kept(self) -> set[str]:
        """Return the files in the home, apart from what uv keeps for itself."""
        files = {str(p.relative_to(self.home)) for p in self.home.rglob("*") if p.is_symlink() or not p.is_dir()}
        own = re.compile(r"\.local/share/uv/(credentials/.*|tools/\.(lock|gitignore))$|\.cache/(uv|pip)/")
        return {name for name in files if not own.match(name)}


def _configuration_of_the_clients() -> dict[str, str]:
    """Return the variables that let pip and uv, in an empty home, use the index and the caches that they use here."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    files = {"PIP_CONFIG_FILE": config / "pip" / "pip.conf", "UV_CONFIG_FILE": config / "uv" / "uv.toml"}
    found = {name: str(path) for name, path in files.items() if name not in os.environ and path.is_file()}
    return {"UV_CACHE_DIR": _output(str(BIN / "uv"), "cache", "dir", cwd=ROOT).strip(), **found}


def _output(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=True).stdout


@pytest.fixture
def machine(tmp_path: Path, rival_index: str) -> Machine:
    """Return a machine that has a shell, git, Python, uv and nothing else."""
    return Machine(tmp_path, rival_index)


def _run_step(machine: Machine, step: Step) -> subprocess.CompletedProcess[str]:
    """Run a block and return how it ended; skip the test when it fails and there is no index to install from."""
    done = machine.run(step.commands, ok=False)
    if done.returncode != 0:
        with_uv, with_pip = "uv pip install --no-cache --dry-run", "pip download --no-cache-dir --no-deps"
        probe = f"{with_pip} --dest" if "\npip install" in step.commands else f"{with_uv} --target"
        reached = machine.run(f"{probe} ~/probe click", ok=False)
        if reached.returncode != 0:
            pytest.skip(f"the package index cannot be reached: {reached.stderr.strip()[-300:]}")
    return done


# What must be true after each block


def _check_parts(machine: Machine, version: str, *others: str) -> None:
    """All parts are of one version, the kernel is ours, and the modules are found by entry point and load."""
    facts = machine.ask("version --json")
    ours = {path.parent.name for path in ROOT.glob("amplifier-*/pyproject.toml")}
    ours |= {"amplifier", *(f"amplifier-module-{module}" for module in MODULES)}
    ours.remove("amplifier-testing")  # an extra, for authors of modules
    assert facts["packages"] == dict.fromkeys(ours, version)
    script = (
        "import amplifier_core as core, importlib.metadata as m, json;"
        "found = {e.name: bool(e.load()) for e in m.entry_points(group='amplifier.modules')};"
        "print(json.dumps([core.__version__, core.__file__, m.version('amplifier-core'), sorted(found)]))"
    )
    kernel, file, distribution, modules = json.loads(machine.run(f'{facts["executable"]} -I -c "{script}"').stdout)
    assert kernel == distribution == version
    assert Path(file).is_relative_to(machine.home)
    assert modules == sorted([*MODULES, *others])
    installed = {m["id"]: m["installed"]["entry_point"] for m in machine.ask("module list --format json")}
    assert installed["loop-streaming"] == "amplifier_module_loop_streaming:mount"


def _check_program(machine: Machine, version: str, *others: str) -> None:
    assert machine.run("amplifier --version").stdout == f"amplifier {version}\n"
    assert machine.run("amplifier-digital-twin --version").stdout == f"amplifier-digital-twin {version}\n"
    assert machine.run("amplifier doctor").returncode == 0
    _check_parts(machine, version, *others)


def _check_module_of_others(machine: Machine, install: str) -> None:
    """A module that asks for the published kernel is served by ours, though an index offers newer ones."""
    source = "async def mount(coordinator, config=None):\n    return None\n"
    asks = "Requires-Dist: amplifier-core>=1.4\n"
    entry = "[amplifier.modules]\ntool-greeting = amplifier_module_tool_greeting:mount\n"
    wheel = _wheel(machine.work / "greeting", "amplifier-module-tool-greeting", "1.0.0", source, asks, entry)
    if install.startswith("pip"):
        machine.run(f"pip install --extra-index-url {machine.rival_index} {wheel}")
        pretend = "--quiet --dry-run --ignore-installed --report -"
        report = machine.run(f"{install} {pretend} --extra-index-url {machine.rival_index}")
        chosen = {p["metadata"]["name"]: p["download_info"]["url"] for p in json.loads(report.stdout)["install"]}
        assert chosen["amplifier-core"].startswith((machine.work / "amplifier" / "dist").as_uri())
    else:
        machine.run(f"{install} --reinstall-package amplifier-core --with {wheel} --index {machine.rival_index}")
    _check_parts(machine, VERSION, "tool-greeting")


def _installed(machine: Machine, step: Step, printed: str) -> None:
    """The program works and its kernel stays; then use it, so that there is something to keep."""
    _check_program(machine, VERSION)
    _check_module_of_others(machine, step.commands.splitlines()[-1])
    assert "scripted model" in machine.run("amplifier run hello").stdout
    machine.run(f"amplifier settings set {SETTING} 50")
    machine.release()


def _tried(machine: Machine, step: Step, printed: str) -> None:
    """The commands print what the page says they do."""
    lines = printed.splitlines()
    assert (lines[0], lines[-1]) == (f"amplifier {VERSION}", f"amplifier-digital-twin {VERSION}")
    assert "scripted model" in lines[1]
    assert f"all {len(MODULES) + 6} parts are {VERSION}" in printed
    assert not re.search(r"^fail", printed, flags=re.MULTILINE)


def _built(machine: Machine, step: Step, printed: str) -> None:
    """Every tracked file of every package is in its wheel: bundles, type markers, schemas."""
    dist = machine.work / "amplifier" / "dist"
    assert len(list(dist.glob("*.whl"))) == len(list(dist.glob("*.tar.gz"))) == len(MODULES) + 7
    for package in machine.repository.rglob("py.typed"):
        folder = package.parent
        [wheel] = dist.glob(f"{folder.name}-{VERSION}-*.whl")
        tracked = _output("git", "ls-files", "-z", str(folder), cwd=folder.parent).split("\0")
        with zipfile.ZipFile(wheel) as archive:
            assert set(filter(None, tracked)) - set(archive.namelist()) == set(), wheel.name
            metadata = archive.read(f"{folder.name}-{VERSION}.dist-info/METADATA").decode()
        assert "Requires-Python: >=3.11\n" in metadata


def _upgraded(machine: Machine, step: Step, printed: str) -> None:
    """The program is the next one; settings and sessions are the old ones, and sessions go on."""
    anew = "uv tool install" in step.commands  # which takes what it is told, and forgets what was added before
    _check_program(machine, NEXT, *([] if anew else ["tool-greeting"]))
    sessions = machine.ask("session list --format json")["sessions"]
    assert [session["first_prompt"] for session in sessions] == ["hello"] * len(sessions)
    assert [session["turn_count"] for session in sessions] == [2] + [1] * (len(sessions) - 1)
    assert machine.run(f"amplifier settings get {SETTING}").stdout.strip() == "50"
    machine.session = sessions[-1]["id"]
    machine.run(f"amplifier resume {machine.session} 'and again'")
    assert machine.ask("session list --format json")["sessions"][0]["id"] == machine.session


def _uninstalled(machine: Machine, step: Step, printed: str) -> None:
    """No program and no part is left, and what stays lies in the program's home."""
    assert machine.run("command -v amplifier amplifier-digital-twin", ok=False).stdout == ""
    if step.commands.startswith("pip"):
        left = {p["name"] for p in json.loads(machine.run("pip list --format json").stdout)}
        assert not any(name.startswith("amplifier") for name in left)
        assert "click" in left
    else:
        assert {name.partition("/")[0] for name in machine.kept()} == {".amplifier"}
    assert any(name.endswith(f"{machine.session}/events.jsonl") for name in machine.kept())
    assert ".amplifier/settings.yaml" in machine.kept()


def _nothing_left(machine: Machine, step: Step, printed: str) -> None:
    assert machine.run("command -v amplifier amplifier-digital-twin", ok=False).stdout == ""
    assert machine.kept() == set()


def _environment_deleted(machine: Machine, step: Step, printed: str) -> None:
    assert {name.partition("/")[0] for name in machine.kept()} == {".amplifier"}
    assert machine.run("command -v python3").stdout.strip() == str(machine.home.parent / "bin" / "python3")


CHECKS: dict[str, Callable[[Machine, Step, str], None]] = {
    "Build": _built,
    "Install": _installed,
    "Try it": _tried,
    "Upgrade": _upgraded,
    "Uninstall": _uninstalled,
    "Leave nothing behind": _nothing_left,
    "Delete the environment": _environment_deleted,
}


@pytest.mark.system
@pytest.mark.parametrize("section", _sections())
def test_a_section_of_the_page_does_what_it_says(section: str, machine: Machine) -> None:
    """The commands of a section, as they stand there, install, upgrade and remove the product in an empty home."""
    if section == "uv, from git":  # whose commands take the newest packages of others, which tests must not depend on
        machine.environment |= dict.fromkeys(("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"), str(ROOT / "constraints.txt"))
    for step in _sections()[section]:
        done = _run_step(machine, step)
        assert done.returncode == 0, f"{step.commands}\n{done.stdout}{done.stderr}"
        CHECKS[step.heading](machine, step, done.stdout)


# Platforms


def test_without_locks_and_signals_nothing_runs_and_nothing_is_written(tmp_path: Path) -> None:
    """Where Python has neither `fcntl` nor signal handlers of the loop, as on Windows, commands that write refuse."""
    program = (
        "import asyncio.unix_events as unix, sys\n"
        "sys.modules['fcntl'] = None\n"
        "def refuse(*_): raise NotImplementedError\n"
        "unix._UnixSelectorEventLoop.add_signal_handler = refuse\n"
        "from amplifier_app_cli.main import main; main(sys.argv[1:])\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AMPLIFIER")}
    for arguments in (("run", "hello"), ("settings", "set", "bundle.active", "minimal"), ("trust", "--yes")):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1, arguments
        assert done.stdout == ""
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
