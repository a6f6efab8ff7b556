"""What a universe cannot do, whatever runs in it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_digital_twin.engines.containers import Podman
from amplifier_testing.universe import Universe, twin_program


def test_nothing_but_the_services_can_be_reached(basic: Universe) -> None:
    """No interface but loopback, no route, no names, no port of the host; the repository is served."""
    assert basic.exec("cat /proc/net/route | wc -l").stdout.strip() == "1"
    assert basic.exec("cut -d: -f1 /proc/net/dev | tail -n +3").stdout.split() == ["lo"]
    assert basic.exec("getent hosts example.com").exit_code != 0
    done = basic.exec("socat -u OPEN:/dev/null TCP:127.0.0.1:22")
    assert "refused" in done.stderr
    assert basic.exec("git clone -q https://github.com/owner/tree && cat tree/file").stdout == "content\n"
    refused = basic.exec("git clone https://github.com/owner/other")
    assert refused.exit_code != 0
    assert "not served" in refused.stderr


def test_the_host_is_not_seen(basic: Universe, tmp_path: Path) -> None:
    """Files of the host are missing, what is mounted is read-only, and no device, socket or kernel setting is shown."""
    assert basic.exec(["test", "-e", str(tmp_path)]).exit_code == 1
    assert basic.exec("ls /sys /root").stdout.strip() in ("", "/sys:")
    for line in ("touch /run/twin/x", "echo x >> /etc/gitconfig", "echo x > /usr/local/bin/uv", "touch /usr/x"):
        assert basic.exec(line).exit_code != 0, line
    mounts = [line.split() for line in basic.exec("cat /proc/mounts").stdout.splitlines()]
    shared = [mount for mount in mounts if mount[1].startswith(("/run/twin", "/etc/gitconfig", "/usr/local/bin"))]
    assert shared
    assert all("ro" in mount[3].split(",") for mount in shared)
    assert basic.exec("mknod /tmp/disk b 254 0").exit_code != 0
    assert basic.exec("echo x > /proc/sys/kernel/core_pattern").exit_code != 0


def test_there_are_no_privileges(basic: Universe) -> None:
    """No capability, no new privileges, no namespaces, for the user and for root."""
    for user in ("user", "root"):
        status = dict(
            line.split(":\t", 1) for line in basic.exec("cat /proc/self/status", user=user).stdout.splitlines()
        )
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    for words in (["unshare", "-Ur", "true"], ["unshare", "-n", "true"], ["mount", "-t", "tmpfs", "none", "/tmp"]):
        assert basic.exec(words).exit_code != 0, words


def test_limits_hold(basic: Universe) -> None:
    """Memory, processes and disk end where the profile says; the universe survives."""
    assert basic.exec('python3 -c "x = bytearray(400 << 20)"').exit_code != 0
    forks = "import os, time\nfor _ in range(100):\n    if not os.fork(): time.sleep(3); os._exit(0)"
    assert "Resource temporarily unavailable" in basic.exec(["python3", "-c", forks]).stderr
    time.sleep(4)  # until the processes that could be made have ended
    for folder in ("/home/user", "/tmp", "/var/tmp"):
        filled = basic.exec(f"head -c 80000000 /dev/zero > {folder}/large; rm -f {folder}/large")
        assert "No space left" in filled.stderr, folder
    writable = "find / -xdev -writable -not -type l -not -path '/proc/*' 2>/dev/null"
    assert set(basic.exec(writable).stdout.split()) == {"/home", "/tmp"}
    assert basic.exec("echo alive").stdout == "alive\n"


def test_wall_time_holds(universe: Callable[..., Universe], profile: Callable[..., Path]) -> None:
    """A launch that takes longer than the profile allows is an error, and nothing of it stays."""
    text = "dtu: 1\nname: slow\nlimits: {wall: 2s}\nprovision: {commands: [sleep 60]}\n"
    with pytest.raises(Exception, match="wall_limit"):
        universe(profile(text=text))
    assert twin_program("list")["universes"] == []


def test_a_hostile_repository_runs_nothing_on_the_host(
    universe: Callable[..., Universe], profile: Callable[..., Path], tmp_path: Path
) -> None:
    """Hooks, filters, aliases and a build of a repository run in a container or nowhere."""
    tree, marker = tmp_path / "tree", tmp_path / "marker"
    hook = tree / ".git" / "hooks" / "post-checkout"
    for name in ("post-checkout", "pre-commit", "post-index-change"):
        hook = tree / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
        hook.chmod(0o755)
    settings = {"core.fsmonitor": f"touch {marker}", "filter.evil.clean": f"touch {marker}; cat"}
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], cwd=tree, check=True)
    (tree / ".gitattributes").write_text("* filter=evil\n", encoding="utf-8")
    (tree / "file").write_text("changed\n", encoding="utf-8")
    build = f"touch {marker}; mkdir -p dist; false"
    more = f"packages: [{{name: evil, wheel_from_git: {{repo: tree, build: '{build}'}}}}]\n"
    with pytest.raises(Exception, match="wheel_build_failed"):
        universe(profile(more))
    assert not marker.exists()


def test_secrets_are_in_no_file_argv_snapshot_or_log(
    universe: Callable[..., Universe],
    profile: Callable[..., Path],
    amplifier_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command sees the secret; nothing on disk, in argv or in the engine's records does."""
    value = "s3cret-value-of-a-test"
    monkeypatch.setenv("SERVICE_KEY", value)
    twin = universe(profile("secrets: [SERVICE_KEY]\nprovision: {commands: ['test -n \"$SERVICE_KEY\"; touch x']}\n"))
    seen = "env | grep -c ^SERVICE_KEY=; cat /proc/[0-9]*/cmdline | grep -ac 's3cre[t]'"
    assert twin.exec(seen).stdout.split() == ["1", "0"]
    assert twin.exec('echo "$SERVICE_KEY"').stdout.strip() == value
    twin_program("snapshot", twin.id, "mine")
    engine = Podman()
    inspected = engine.must("container", "inspect", f"amplifier-twin-{twin.id}")
    assert value not in inspected
    found = subprocess.run(["grep", "-rl", value, str(amplifier_home)], capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert value not in json.dumps(twin_program("logs", twin.id))


def test_a_secret_in_a_file_is_not_kept(
    universe: Callable[..., Universe], profile: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that would hold a secret is refused."""
    monkeypatch.setenv("SERVICE_KEY", "s3cret-value-of-a-test")
    twin = universe(profile("secrets: [SERVICE_KEY]\n"))
    twin.exec('echo "$SERVICE_KEY" > ~/key')
    with pytest.raises(Exception, match="secret_in_files"):
        twin_program("snapshot", twin.id, "mine")


def test_containers_of_others_are_never_touched(basic: Universe) -> None:
    """Pruning and destroying leave containers without our labels, and those of another home, alone."""
    engine = Podman()
    (image, *_) = engine.must("images", "--format", "{{.Repository}}:{{.Tag}}", "amplifier-twin/base").split()
    names = [f"somebody-elses-{os.getpid()}-{number}" for number in range(2)]
    labels = ["--label=mine=yes", "--label=amplifier.digital-twin.id=dtu-00000000"]
    try:
        for name, label in zip(names, labels, strict=True):
            words = ["--detach", "--network=none", f"--name={name}", label, "--ulimit=nofile=1024:1024"]
            engine.must("run", *words, "--ulimit=nproc=1024:1024", image, "sleep", "300")
        twin_program("prune", "--mine")
        assert [engine.init_pid(name) is not None for name in names] == [True, True]
        assert basic.exec("true").exit_code == 0
    finally:
        for name in names:
            engine.remove(name)
