"""The parts of the engines' backends that need no engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.backends.calls import ask, stream
from amplifier_digital_twin.backends.docker import Docker
from amplifier_digital_twin.backends.engine import EngineBackend, check_identifier, check_tag
from amplifier_digital_twin.backends.engine_exec import _ENTER, assignments
from amplifier_digital_twin.backends.id_shift import shift_owners
from amplifier_digital_twin.backends.incus import Incus
from amplifier_digital_twin.backends.podman import Podman
from amplifier_digital_twin.backends.select import all_backends
from amplifier_digital_twin.backends.twin import TwinSpec
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Limits, User

_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("PATH", "PWD", "_", "IFS", "PPID", "OPTIND", "SHLVL", "UID", "EUID")
)
_VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def spec(tmp_path: Path, **changes: Any) -> TwinSpec:
    """Return a spec."""
    given: dict[str, Any] = {
        "limits": Limits(memory=1000, pids=7, cpus=1.5, disk=5000),
        "network": "none",
        "base": Base("host"),
    } | changes
    return TwinSpec("dtu-0a1b2c3d", tmp_path, tmp_path, user=User(), hostname="twin", **given)


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_any_environment_passes_through_the_shell(environment: dict[str, str]) -> None:
    """A shell that reads the line has exactly these variables, and the command's input is whole."""
    wanted = {"PATH": "/usr/bin:/bin", **environment}
    show = "import os,sys; sys.stdout.buffer.write(b'\\0'.join(b'='.join(p) for p in os.environb.items()) + b'\\1')"
    done = subprocess.run(
        ["/bin/sh", "-c", _ENTER, "sh", "/", sys.executable, "-I", "-S", "-c", f"{show}; print(sys.stdin.read())"],
        input=assignments(wanted, ["STRAY"]) + b"the input",
        env={"STRAY": "1", "TERM": "x", "PATH": "/bin"},
        capture_output=True,
        check=True,
    )
    first, _, rest = done.stdout.partition(b"\n")
    assert first.isdigit()
    block, _, given_input = rest.rpartition(b"\1")
    found = dict(pair.split(b"=", 1) for pair in block.split(b"\0"))
    found.pop(b"LC_CTYPE", None)  # Python's own, in a plain locale
    assert found == {name.encode(): value.encode() for name, value in wanted.items()}
    assert given_input == b"the input\n"


@pytest.mark.parametrize("environment", [{"A-B": "1"}, {"": "1"}, {"A": "\0"}, {"1A": ""}])
def test_names_that_no_shell_knows_are_refused(environment: dict[str, str]) -> None:
    """What could not arrive is an error, not left out."""
    with pytest.raises(TwinError) as caught:
        assignments(environment, [])
    assert caught.value.code == "environment_invalid"


async def test_podman_is_called_with_everything_explicit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, no rights but few, limits and ulimits said, labelled, ids of its own, never a pull."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words, notes = await Podman().run_arguments(spec(tmp_path), "image")
    line = " ".join(words)
    for part in (
        "--network none",
        "--cap-drop ALL",
        "no-new-privileges",
        "--pull never",
        "--memory 1000",
        "--pids-limit 7",
        "--cpus 1.5",
        "--uidmap 0:700000000:65536",
        "--name amplifier-twin-dtu-0a1b2c3d",
        "amplifier.twin.owner=0",
        "/usr:/usr:ro",
        "fsize=5000:5000",
        "mask=/sys",
    ):
        assert part in line
    assert "nofile=" in line
    assert "nproc=" in line
    assert "SYS_ADMIN" not in line
    assert any("disk" in note for note in notes)


async def test_the_hosts_network_is_a_weaker_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the host's network there are no ids of its own, and the notes say so."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words, notes = await Podman().run_arguments(spec(tmp_path, network="host"), "image")
    assert "--network host" in " ".join(words)
    assert "--uidmap" not in words
    assert any("root" in note for note in notes)


def _podman(version: str, runtime: str) -> dict[str, Any]:
    return {"cgroupVersion": version, "ociRuntime": {"name": runtime}, "cgroupControllers": ["cpu", "memory", "pids"]}


def test_podman_takes_runc_with_old_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """crun fails where both versions of control groups are mounted: runc is used, or podman is not."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for version, runtime, runc, is_available, words in (
        ("v1", "crun", "/usr/sbin/runc", True, ("--runtime", "/usr/sbin/runc")),
        ("v1", "crun", None, False, ()),
        ("v1", "runc", None, True, ()),
        ("v2", "crun", None, True, ()),
    ):
        monkeypatch.setattr("amplifier_digital_twin.backends.podman.find_program", lambda name, found=runc: found)
        engine = Podman()
        assert engine._judge(_podman(version, runtime)).is_available is is_available
        assert engine.global_words == words


def test_podman_without_limits_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing controller is a feature that is not there, with its reason."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    probe = Podman()._judge(_podman("v2", "crun") | {"cgroupControllers": ["pids"]})
    assert probe.features["cgroups"] == "no: podman has no control of cpu, memory"


async def test_podman_limits_each_process_without_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without control groups the limits of processes take their place, and the notes say so."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    engine = Podman()
    engine._probe = engine._judge(_podman("v2", "crun") | {"cgroupControllers": []})
    words, notes = await engine.run_arguments(spec(tmp_path, limits=Limits(memory=2**30, pids=7, cpus=1.0)), "image")
    assert {"nproc=7:7", f"data={2**30}:{2**30}"} < set(words)
    assert not {"--memory", "--pids-limit", "--cpus"} & set(words)
    assert len(notes) == 4


def program(folder: Path, name: str, script: str) -> None:
    """Put a pretended engine on the path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


async def test_a_docker_client_alone_is_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that answers for itself, with success, is not taken for an engine."""
    program(tmp_path, "docker", """echo '{"ServerErrors":["Cannot connect to the daemon"],"ClientInfo":{}}'""")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    probe = await Docker().probe()
    assert not probe.is_available
    assert "no engine answers: Cannot connect to the daemon" in probe.reason


async def test_docker_is_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's docker is refused with the reason: its networks cannot be entered."""
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    probe = Docker()._judge({"ServerVersion": "1"})
    assert not probe.is_available
    assert "network" in probe.reason


@pytest.mark.parametrize("engine", [Podman, Docker, Incus])
async def test_an_engine_that_is_not_installed_says_so(
    engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missing program is a reason, not an exception, and there is nothing of it to remove."""
    for module in ("containers", "incus"):
        monkeypatch.setattr(f"amplifier_digital_twin.backends.{module}.find_program", lambda name: None)
    backend = EngineBackend(engine())
    probe = await backend.probe()
    assert not probe.is_available
    assert "not installed" in probe.reason
    await backend.remove(tmp_path, "dtu-0a1b2c3d")
    with pytest.raises(TwinError) as caught:
        await backend.create(spec(tmp_path), lambda text: None)
    assert caught.value.code == "backend_unavailable"


async def test_incus_without_a_daemon_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without a daemon is no engine."""
    program(tmp_path, "incus", "echo 'Error: The incus daemon does not appear to be started' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    probe = await Incus().probe()
    assert not probe.is_available
    assert "no daemon answers" in probe.reason


def test_incus_gets_no_profile_and_no_network(tmp_path: Path) -> None:
    """A container of no profile has no network device; its rights and limits are said."""
    words = Incus().init_arguments(spec(tmp_path), "image")
    assert "--no-profiles" in words
    assert {"limits.memory=1000B", "limits.processes=7", "limits.cpu.allowance=150ms/100ms"} < set(words)
    raw = next(word for word in words if word.startswith("raw.lxc="))
    assert "lxc.no_new_privs = 1" in raw
    assert "sys_admin" not in raw


def test_owners_are_given_back(tmp_path: Path) -> None:
    """Numbers of the universe's range become those inside; others, links and content stay."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for name, uid in (("mine", 700_001_000), ("roots", 700_000_000), ("plain", 12)):
            entry = tarfile.TarInfo(name)
            entry.uid = entry.gid = uid
            archive.addfile(entry)
    shift_owners(tmp_path / "a.tar", tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as archive:
        assert {member.name: (member.uid, member.gid) for member in archive} == {
            "mine": (1000, 1000),
            "roots": (0, 0),
            "plain": (12, 12),
        }


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "-x", "x" * 80])
def test_identifiers_that_could_name_something_else_are_refused(name: str) -> None:
    """Names of containers are made only of identifiers that hold nothing strange."""
    with pytest.raises(TwinError):
        check_identifier(name)
    if name != "A":
        with pytest.raises(TwinError):
            check_tag(name if len(name) < 80 else name * 2)


async def test_a_call_that_hangs_is_ended(tmp_path: Path) -> None:
    """A program that does not answer is killed with what it started, and the caller hears it."""
    mark = tmp_path / "pid"
    for seconds in (0.5, 30):  # twice only on a machine that is very busy
        with pytest.raises(TwinError, match="did not answer"):
            await ask(["/bin/sh", "-c", f"sleep 6061 & echo $! > {mark}; wait"], timeout=seconds)
        if mark.exists():
            break
    for _ in range(1000):
        if not Path(f"/proc/{mark.read_text().strip()}").exists():
            return
        await asyncio.sleep(0.05)
    pytest.fail("a process is left")


async def test_a_hearer_that_fails_ends_the_call() -> None:
    """An error of whoever hears the output is passed on at once, and the program ended."""

    def hear(name: str, data: bytes) -> None:
        raise ValueError("too much")

    with pytest.raises(ValueError, match="too much"):
        await stream(["/bin/sh", "-c", "echo x; exec sleep 7071"], b"", hear, 60)


def test_every_backend_has_its_name() -> None:
    """Backends are found by the names that profiles use, the one without an engine first."""
    assert list(all_backends()) == ["embedded", "podman", "docker", "incus"]
    assert all(name == backend.name for name, backend in all_backends().items())
