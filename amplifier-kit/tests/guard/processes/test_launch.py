"""Programs are started by one function: by their own path, with the environment and in the folder that is named."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from amplifier_kit.guard.processes import supervisor
from amplifier_kit.guard.processes.launch import PIPE, open_process, open_process_with_protocol
from amplifier_kit.guard.processes.programs import find_program, host_environment
from amplifier_kit.guard.sandbox import bubblewrap


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that this process works in, on PATH in every way that there is, with programs planted in it."""
    project = tmp_path / "project"
    (project / "bin").mkdir(parents=True)
    (project / "src").mkdir()
    (project / ".git").mkdir()
    for folder in (project, project / "bin"):
        for name in ("ps", "rg", "uv", "python3", "bwrap", "git", "vim"):
            plant(folder / name, project / "planted")
    monkeypatch.chdir(project)
    system = os.environ["PATH"]
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", str(project), str(project / "bin"), system]))
    return project


def plant(path: Path, trace: Path) -> None:
    path.write_text(f'#!/bin/sh\necho "$0" >> {trace}\nexit 0\n')
    path.chmod(0o755)


def own(folder: Path, *names: str) -> Path:
    """Make a folder of programs that belong to the user."""
    folder.mkdir(exist_ok=True)
    for name in names:
        plant(folder / name, folder / "trace")
    return folder


@pytest.mark.parametrize("name", ["ps", "rg", "uv", "python3", "bwrap", "git", "vim"])
def test_program_on_path_is_not_taken_from_the_project(project: Path, tmp_path: Path, name: str) -> None:
    """A program is found in the folders of PATH that are absolute and outside of the project, and only there."""
    tools = own(tmp_path / "tools", name)
    path = os.pathsep.join([".", "", "bin", str(project), str(project / "bin"), str(tools)])
    assert find_program(name, path) == str(tools / name)
    assert find_program(name, os.pathsep.join([".", "", "bin", str(project), f"{project}/../project/bin"])) is None
    assert find_program(f"./{name}", path) is None
    assert find_program(f"bin/{name}", path) is None


def test_program_behind_a_link_of_the_project_is_not_taken(project: Path, tmp_path: Path) -> None:
    """A path that leads into the project, or over a link in it, is as untrusted as the project."""
    tools = own(tmp_path / "tools", "rg")
    links = tmp_path / "links"
    links.mkdir()
    (links / "rg").symlink_to(project / "bin" / "rg")
    (project / "way").symlink_to(tools)
    (project / "tool").symlink_to(tools / "rg")
    over = tmp_path / "over"
    over.mkdir()
    (over / "rg").symlink_to(project / "tool")
    (tmp_path / "folder").symlink_to(project / "bin")
    for folder in (links, over, project / "way", tmp_path / "folder"):
        assert find_program("rg", str(folder)) is None
    assert find_program("rg", str(tools)) == str(tools / "rg")


def test_program_of_the_repository_around_is_not_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works in a folder of a repository does not run the programs that lie elsewhere in it."""
    monkeypatch.chdir(project / "src")
    assert find_program("rg", str(project / "bin")) is None


def test_home_under_version_control_keeps_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder that is a repository, for the sake of its settings, does not make its programs untrusted."""
    home = tmp_path / "home"
    (home / ".git").mkdir(parents=True)
    (home / "project").mkdir()
    tools = own(home / "bin", "rg")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "project")
    assert find_program("rg", str(tools)) == str(tools / "rg")


def test_folder_that_commands_can_write_is_untrusted(project: Path, tmp_path: Path) -> None:
    """The folders that the sandbox opens for writing are no better than the project."""
    tools = own(tmp_path / "tools", "rg")
    assert find_program("rg", str(tools), [tools]) is None
    assert bubblewrap.find(str(own(tmp_path / "more", "bwrap")), [str(tmp_path / "more")]) is None


def test_work_in_a_system_folder_leaves_its_programs_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Working in the root folder or in /usr does not make the system's own programs untrusted."""
    for folder in ("/", "/usr"):
        monkeypatch.chdir(folder)
        assert find_program("sh", "/usr/bin:/bin") is not None


def test_libraries_and_modules_of_the_project_are_not_loaded(project: Path, tmp_path: Path) -> None:
    """Variables that make programs load code lose what is relative or lies in the project, and keep the rest."""
    own(tmp_path / "tools")
    kept = host_environment(
        {
            "PATH": f".:{project}/bin:{tmp_path}/tools::bin",
            "LD_LIBRARY_PATH": f"{project}:lib:{tmp_path}/tools",
            "LD_PRELOAD": f"{project}/x.so libjemalloc.so ./y.so",
            "PYTHONPATH": f"{project}/src:",
            "BASH_ENV": "rc.sh",
            "PYTHONSTARTUP": str(tmp_path / "tools" / "start.py"),
            "LANG": "C",
        }
    )
    assert kept == {
        "PATH": f"{tmp_path}/tools",
        "LD_LIBRARY_PATH": f"{tmp_path}/tools",
        "LD_PRELOAD": "libjemalloc.so",
        "PYTHONSTARTUP": str(tmp_path / "tools" / "start.py"),
        "LANG": "C",
    }
    assert host_environment({"PATH": f"{project}/bin"})["PATH"] == os.defpath


def test_start_names_the_program_by_its_path(project: Path) -> None:
    """A program that is named without its path is not started, so that nobody looks for it in the wrong place."""
    for argv in (["rg"], ["./rg"], ["bin/rg"], []):
        with pytest.raises(ValueError, match="absolute path"):
            open_process(argv, environment={})
    assert not (project / "planted").exists()


def test_start_in_a_folder_needs_a_reason(project: Path) -> None:
    """A program runs in the root folder, where nothing was planted, unless there is a reason for another one."""
    with pytest.raises(ValueError, match="needs a reason"):
        open_process(["/bin/pwd"], environment={}, cwd=project)
    with pytest.raises(ValueError, match="absolute folder"):
        open_process(["/bin/pwd"], environment={}, cwd="src", because="to see")
    assert _output(open_process(["/bin/pwd"], environment={}, stdout=PIPE)) == "/\n"
    there = open_process(["/bin/pwd"], environment={}, cwd=project, because="to see", stdout=PIPE)
    assert _output(there) == f"{project}\n"


def test_started_program_gets_nothing_of_ours(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program has no input, no terminal, no descriptor and no variable that it was not given."""
    monkeypatch.setenv("OURS", "1")
    keep, other = os.pipe()
    os.set_inheritable(keep, True)
    script = 'echo "${OURS-none}"; cat; ls /proc/self/fd | tr "\\n" " "; [ -t 0 ] && echo terminal; ps -o sid= -p $$'
    process = open_process(["/bin/sh", "-c", script], environment={"PATH": os.environ["PATH"]}, stdout=PIPE)
    said = _output(process)
    os.close(keep)
    os.close(other)
    assert said.splitlines()[0] == "none"
    assert said.splitlines()[1].split()[:4] == ["0", "1", "2", "3"]  # the last one is of `ls` itself
    assert str(process.pid) in said.splitlines()[1] or said.strip().endswith(str(process.pid))
    assert not (project / "planted").exists()


async def test_start_for_an_event_loop_keeps_the_same_rules(project: Path) -> None:
    """What a loop reads from is started by the same rules: path, folder, environment."""
    with pytest.raises(ValueError, match="absolute path"):
        await open_process_with_protocol(asyncio.SubprocessProtocol, ["rg"], environment={})
    with pytest.raises(ValueError, match="needs a reason"):
        await open_process_with_protocol(asyncio.SubprocessProtocol, ["/bin/pwd"], environment={}, cwd=project)

    class Reader(asyncio.SubprocessProtocol):
        def __init__(self) -> None:
            self.said = b""
            self.ended = asyncio.get_running_loop().create_future()

        def pipe_data_received(self, fd: int, data: bytes) -> None:
            if fd == 1:  # what a shell says of a missing program comes by another pipe, sooner or later than this
                self.said += data

        def connection_lost(self, exc: Exception | None) -> None:
            self.ended.set_result(None)

    environment = {"PATH": f".:{project}/bin:/usr/bin:/bin"}
    transport, reader = await open_process_with_protocol(
        Reader, ["/bin/sh", "-c", "pwd; rg; echo $PATH"], environment=environment
    )
    await reader.ended
    transport.close()
    assert reader.said.decode().splitlines() == ["/", "/usr/bin:/bin"]
    assert not (project / "planted").exists()


def test_an_unknown_option_is_refused() -> None:
    """A misspelt option is an error: it may have been meant to protect something."""
    with pytest.raises(TypeError, match="unknown options to start a process: untrused"):
        open_process(["/bin/true"], environment={}, untrused=["/"])  # type: ignore[call-arg]


def test_table_of_processes_is_not_asked_of_a_planted_ps(project: Path) -> None:
    """Where processes are listed by `ps`, it is the system's own, not the first one on PATH."""
    assert any(pid == os.getpid() for pid, _, _ in supervisor._read_ps())
    assert not (project / "planted").exists()


def test_bubblewrap_is_not_taken_from_the_project(project: Path) -> None:
    """The program that makes the sandbox is never one that commands could have put there."""
    found = bubblewrap.find(os.environ["PATH"], [str(project)])
    assert found is None or not found.startswith(str(project))
    assert not (project / "planted").exists()


def _output(process: subprocess.Popen[bytes]) -> str:
    with process:
        return process.communicate()[0].decode()
