"""Whether there is a sandbox is tried, not guessed; where there is none, that is said, or nothing is run."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_kit.guard.sandbox import bubblewrap
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxRequiredError
from amplifier_kit.guard.sandbox.sandbox import MISSING, Sandbox, sandbox_of

Fake = Callable[[str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Give `fake(script)`: a program that is called bwrap, and the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(script: str) -> Path:
        program = folder / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    return make


def test_none_on_path(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bubblewrap commands run as they are, and the summary shouts; `required` runs nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    box = Sandbox(SandboxConfig(), project)
    assert box.wrap(["true"], environment={"A": "b"}) == (["true"], {"A": "b"})
    assert box.summary() == (f"sandbox: NOT AVAILABLE, commands can do whatever you can: {MISSING}")
    strict = Sandbox(SandboxConfig(mode="required"), project)
    assert strict.summary().startswith("sandbox: NOT AVAILABLE, commands are refused: ")
    with pytest.raises(SandboxRequiredError, match="apt install bubblewrap") as caught:
        strict.wrap(["true"])
    assert (caught.value.code, caught.value.reason) == (
        "sandbox_required",
        MISSING,
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('echo "bwrap: No permissions to create new namespace" >&2; exit 1', "No permissions to create new namespace"),
        ("exit 3", "exit code 3"),
        ("exit 0", "does not run the given command"),
        ("kill -9 $$", "cannot start a command"),
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "does not isolate: user, mnt, pid, net, ipc, uts"),
        ("head -c 3000000 /dev/zero; exit 1", "cannot start a command"),
    ],
)
def test_one_that_does_not_work(fake: Fake, project: Path, script: str, reason: str) -> None:
    """A bubblewrap that fails, lies or only pretends is as good as none, with the reason."""
    fake(f"PATH=/usr/bin:/bin\n{script}")
    status = Sandbox(SandboxConfig(), project).status
    assert status.status == "absent"
    assert reason in status.reason
    with pytest.raises(SandboxRequiredError):
        Sandbox(SandboxConfig(mode="required"), project).wrap(["true"])


async def test_one_that_hangs(
    fake: Fake, project: Path, monkeypatch: pytest.MonkeyPatch, nap: str, naps: Callable[[], list[int]]
) -> None:
    """It is given up after a while, with all it started, and the event loop goes on meanwhile."""
    monkeypatch.setattr(bubblewrap, "TRIAL_SECONDS", 0.5)
    fake(f"PATH=/usr/bin:/bin\n{nap} & {nap}")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    status = await Sandbox(SandboxConfig(), project).ready()
    ticking.cancel()
    assert status.status == "absent"
    assert "did not start a command within 0.5 s" in status.reason
    assert await wait_for(lambda: not naps(), timeout=60)
    assert ticks > 1


def test_without_a_home(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who has no home, and no account either, has the sandbox that everybody has."""
    expected = Sandbox(SandboxConfig(), project).status
    monkeypatch.chdir(project)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert Sandbox(SandboxConfig(), project).status == expected


def test_tried_once_per_process(fake: Fake, project: Path, tmp_path: Path) -> None:
    """Whoever asks next has the answer already; another program is another matter."""
    program = fake(f"echo x >> '{tmp_path}/tries'; exit 1")
    for _ in range(3):
        assert Sandbox(SandboxConfig(), project).status.status == "absent"
    assert (tmp_path / "tries").read_text(encoding="utf-8") == "x\n"
    program.unlink()
    fake(f"echo y >> '{tmp_path}/tries'; exit 1")
    assert Sandbox(SandboxConfig(), project).status.status == "absent"
    assert (tmp_path / "tries").read_text(encoding="utf-8") == "x\ny\n"


def test_nothing_is_tried_before_it_is_needed(fake: Fake, project: Path, tmp_path: Path) -> None:
    """Making a sandbox starts no process, and one that is off never does."""
    fake(f"echo x >> '{tmp_path}/tries'; exit 1")
    Sandbox(SandboxConfig(), project)
    off = Sandbox(SandboxConfig(mode="off"), project)
    assert off.summary() == "sandbox: OFF: commands can do whatever you can"
    assert off.wrap(["true"], environment={})[0] == ["true"]
    assert not (tmp_path / "tries").exists()


async def test_what_is_said(bubblewrap: None, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The event has what the session's log should have; only what is worth a warning is one."""
    seen: list[Any] = []

    async def emit(event: str, data: dict[str, Any]) -> None:
        seen.append((event, data))

    listener = SimpleNamespace(hooks=SimpleNamespace(emit=emit))
    await Sandbox(SandboxConfig(network=True), project).announce(listener, "some-tool")
    assert seen == [
        (
            "sandbox:status",
            {
                "tool": "some-tool",
                "status": "active",
                "mode": "auto",
                "backend": "bubblewrap",
                "network": True,
                "reason": "",
            },
        )
    ]
    assert caplog.records == []
    assert "the host's network" in Sandbox(SandboxConfig(network=True), project).summary()


def test_the_sandbox_of_a_module(project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is around the session's folder, hides Amplifier's own, and a looser module is told so."""
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(project))
    coordinator.register_capability("amplifier.home", tmp_path / "own")
    assert sandbox_of(coordinator).settings == SandboxConfig()
    assert sandbox_of(coordinator, {"sandbox": {"network": True}}).settings == SandboxConfig(network=True)
    coordinator.config["session"]["sandbox"] = "required"
    with caplog.at_level(logging.WARNING):
        assert sandbox_of(coordinator, {"sandbox": "off"}).settings == SandboxConfig(mode="required")
    assert "the session requires the sandbox" in caplog.text


def test_a_folder_on_path_that_is_relative(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command could put into the current folder is not taken for bubblewrap."""
    monkeypatch.chdir(project)
    (project / "bwrap").write_text("#!/bin/sh\n", encoding="utf-8")
    (project / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}")
    assert Sandbox(SandboxConfig(), project.parent / "other").status.reason == MISSING


async def test_the_status_comes_before_the_end_of_the_session(
    fake: Fake, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that ends while the sandbox is tried waits for the status."""
    coordinator: Any = MockCoordinator()
    events: list[str] = []
    coordinator.hooks.register("sandbox:status", lambda event, data: events.append(event))
    coordinator.hooks.register("session:end", lambda event, data: events.append(event), priority=1000)
    box = Sandbox(SandboxConfig(), project)
    may_go_on = asyncio.Event()
    ready = box.ready

    async def slow() -> Any:
        await may_go_on.wait()
        return await ready()

    monkeypatch.setattr(box, "ready", slow)
    announcing = asyncio.create_task(box.announce(coordinator, "bash"))
    await asyncio.sleep(0)
    ending = asyncio.create_task(coordinator.hooks.emit("session:end", {}))
    await asyncio.sleep(0)
    assert events == []
    may_go_on.set()
    await asyncio.gather(announcing, ending)
    assert events == ["sandbox:status", "session:end"]
