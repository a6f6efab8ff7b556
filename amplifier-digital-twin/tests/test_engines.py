"""Container engines: how containers are confined, how commands run in them, and which engine is chosen."""

from __future__ import annotations

import io
import json
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.engines import select
from amplifier_digital_twin.engines.containers import Docker, Podman, without_namespaces
from amplifier_digital_twin.engines.engine import Command, ContainerSpec, Probe
from amplifier_digital_twin.engines.incus import Incus
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.files import matches, tar_script
from amplifier_digital_twin.profile.model import Limits, Profile, User

from .fake_engine import HostEngine


@pytest.fixture
def spec(tmp_path: Path) -> ContainerSpec:
    """Return a container with every kind of limit and a mount."""
    return ContainerSpec(
        name="amplifier-twin-dtu-00000000",
        image="localhost/amplifier-twin/base:0",
        labels={"amplifier.digital-twin.id": "dtu-00000000"},
        uid=1000,
        hostname="twin",
        limits=Limits.model_validate({"memory": "1g", "pids": 100, "cpus": 1.5, "disk": "4k"}),
        network="gateway",
        lifetime=90,
        folder=tmp_path,
        script="true",
        mounts={"/run/twin": tmp_path},
    )


@pytest.mark.parametrize("engine", [Podman(), Docker()], ids=lambda engine: engine.name)
def test_containers_are_confined(engine: Podman | Docker, spec: ContainerSpec) -> None:
    """Every container has no network, no capabilities, no way to more privileges, all limits, read-only mounts."""
    words = engine.run_arguments(spec)
    wanted = {
        "--network=none",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--user=1000:1000",
        "--memory=1073741824",
        "--memory-swap=1073741824",
        "--pids-limit=100",
        "--cpus=1.5",
        "--pull=never",
    }
    assert wanted <= set(words)
    assert [word for word in words if word.startswith("--cap-add")] == []
    assert any(word.startswith("--tmpfs=/home:") and "size=3072" in word for word in words)
    assert any(word.startswith("--tmpfs=/tmp:") and "size=1024" in word for word in words)
    assert f"--volume={spec.folder}:/run/twin:ro" in words
    assert all(any(word.startswith(f"--ulimit={name}=") for word in words) for name in ("nofile", "nproc"))


def test_podman_ends_containers_in_time_and_hides_devices(spec: ContainerSpec) -> None:
    """The lifetime is the engine's to enforce, and /sys is not shown."""
    words = Podman().run_arguments(spec)
    assert "--timeout=90" in words
    assert "--security-opt=mask=/sys" in words


def test_root_gets_what_package_managers_need_and_no_more(spec: ContainerSpec) -> None:
    """A profile that asks for root gets a few capabilities, none of which reaches the kernel or the network."""
    words = Podman().run_arguments(replace(spec, uid=0))
    added = {word.partition("=")[2] for word in words if word.startswith("--cap-add")}
    assert added == {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"}


def test_incus_confines_as_well(spec: ContainerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incus container has no profile, and so no network device, no capabilities, and all limits."""
    monkeypatch.setattr(Incus, "_pool", lambda self: "default")
    words = Incus().init_arguments(spec)
    text = "\n".join(words)
    assert "--no-profiles" in words
    for part in ("lxc.cap.keep = none", "lxc.no_new_privs = 1", "limits.memory=1073741824B", "limits.processes=100"):
        assert part in text


def test_filtered_calls_make_no_namespaces() -> None:
    """The filter of system calls keeps its rules, but nobody may make namespaces or mounts."""
    allowed = {"names": ["read", "clone", "clone3", "unshare", "mount"], "action": "SCMP_ACT_ALLOW"}
    refused = {"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}
    made = without_namespaces({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [allowed, refused]})["syscalls"]
    assert made[0]["names"] == ["read"]
    assert made[1] == refused
    assert [(rule["names"], rule["action"]) for rule in made[2:]] == [
        (["clone"], "SCMP_ACT_ALLOW"),
        (["clone3"], "SCMP_ACT_ERRNO"),
    ]
    assert made[2]["args"][0]["value"] & 0x10000000  # CLONE_NEWUSER


def test_a_command_gets_its_input_and_secrets_without_argv(tmp_path: Path) -> None:
    """Values of secrets go through standard input: neither argv nor an engine's files ever hold them."""
    engine = HostEngine()
    script = 'cat; printf %s "$KEY"; tr "\\0" " " < /proc/self/cmdline'
    secrets = {"KEY": "line one\nline two\n"}
    command = Command(["/bin/sh", "-c", script], 0, str(tmp_path), secrets=secrets, stdin=b"given ")
    argv, _ = engine.command_line("c", command, "mark")
    assert not any("line one" in word for word in argv)
    done = engine.run("c", command)
    assert done.stdout.startswith(b"given line one\nline two\n")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """A command is ended at its timeout, with what it printed so far."""
    done = HostEngine().run("c", Command(["/bin/sh", "-c", "echo begin; sleep 60"], 0, "/", {}, timeout=0.5))
    assert (done.is_timed_out, done.stdout) == (True, b"begin\n")


def test_the_end_of_a_command_counts_not_that_of_its_children() -> None:
    """A process that a command leaves in the background does not hold it up."""
    begin = time.monotonic()
    done = HostEngine().run("c", Command(["/bin/sh", "-c", "sleep 30 & echo done"], 0, "/", {}, timeout=60))
    assert done.stdout == b"done\n"
    assert time.monotonic() - begin < 25  # far from any load: the sleep is 30


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/b/c", True),
        ("/a/b", "/a/bc", False),
        ("/a/*.txt", "/a/x.txt", True),
        ("/a/*.txt", "/a/b/x.txt", False),
        ("/a/**/x", "/a/x", True),
        ("/a/**/x", "/a/b/c/x", True),
        ("/a/**/x", "/b/x", False),
        ("/a/[x]", "/a/[x]", True),
    ],
)
def test_globs_mean_what_shells_mean(pattern: str, path: str, expected: bool) -> None:
    """`*` stays within a name, `**` means any depth, and everything below a match belongs to it."""
    assert matches(pattern, path) is expected


def test_archives_hold_what_patterns_find(tmp_path: Path) -> None:
    """Files whose names have spaces, quotes and line breaks come out; a pattern that finds nothing is no error."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    names = ["a b.txt", "it's.txt", "line\nbreak.txt", "-rf.txt"]
    for name in names:
        (tmp_path / "deep" / "er" / name).write_text(name, encoding="utf-8")
    archive = io.BytesIO()
    HostEngine().copy_out("c", tar_script(f"{tmp_path}/**/*.txt"), 0, archive, 10**6)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as members:
        found = sorted(Path(member.name).name for member in members)
    assert found == sorted(names)


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A universe cannot fill the disk of the host through a copy."""
    (tmp_path / "large").write_bytes(bytes(10**6))
    with pytest.raises(TwinError) as caught:
        HostEngine().copy_out("c", tar_script(str(tmp_path / "large")), 0, io.BytesIO(), 10**5)
    assert caught.value.code == "too_large"


# -- the choice of an engine --


def _engines(monkeypatch: pytest.MonkeyPatch, **probes: Probe) -> None:
    engines: dict[str, Any] = {}
    for name, probe in probes.items():
        engines[name] = HostEngine(probe)
        engines[name].name = name
    monkeypatch.setattr(select, "all_engines", lambda: engines)


YES = dict.fromkeys(("memory", "pids", "cpus", "disk"), "yes")


def test_the_first_engine_that_works_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes podman before docker before incus, as far as they work."""
    _engines(monkeypatch, podman=Probe(False, "broken", "repair it"), docker=Probe(True, features=YES))
    assert select.select_engine(Profile(name="x"))[0].name == "docker"


def test_without_an_engine_every_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing works, the error has the reason and the remedy of each engine."""
    _engines(monkeypatch, podman=Probe(False, "broken", "repair it"), docker=Probe(False, "missing", "install it"))
    with pytest.raises(TwinError) as caught:
        select.select_engine(Profile(name="x"))
    error = caught.value.record()
    assert error == {
        "code": "backend_unavailable",
        "message": "podman: broken; docker: missing",
        "remedy": "podman: repair it; docker: install it",
    }


def test_strict_isolation_refuses_a_limit_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the engine only pretends to enforce is an error, unless the profile accepts that."""
    _engines(monkeypatch, podman=Probe(True, features={**YES, "memory": "no: cgroup v1"}))
    with pytest.raises(TwinError, match=r"memory \(no: cgroup v1\)"):
        select.select_engine(Profile(name="x"))
    notes = select.select_engine(Profile(name="x", isolation="best-effort"))[1]
    assert notes == ["not limited: memory (no: cgroup v1)"]
    assert select.select_engine(Profile(name="x", limits=Limits(memory=None)))[1] == []


def test_the_disk_of_root_cannot_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root can write beside the sized file systems, so that strict isolation refuses a disk limit."""
    _engines(monkeypatch, podman=Probe(True, features=YES))
    root = Profile(name="x", user=User(name="root", uid=0))
    with pytest.raises(TwinError, match="root can write"):
        select.select_engine(root)
    assert select.select_engine(root.model_copy(update={"limits": Limits(disk=None)}))[1] == []


def test_the_embedded_runtime_is_an_error_with_the_remedy() -> None:
    """Who still asks for the old runtime learns what takes its place."""
    with pytest.raises(TwinError, match="no longer exists") as caught:
        select.engine_named("embedded")
    assert "podman" in caught.value.remedy


def test_required_features_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`require` names features as doctor does; a missing one is an error."""
    _engines(monkeypatch, podman=Probe(True, features=YES))
    with pytest.raises(TwinError) as caught:
        select.select_engine(Profile(name="x", require=("seccomp",)))
    assert caught.value.code == "feature_missing"


def test_the_record_of_an_error_is_json() -> None:
    """Every error can be read by programs."""
    assert set(json.loads(json.dumps(TwinError("a", "b", "c").record()))) == {"code", "message", "remedy"}
