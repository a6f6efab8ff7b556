"""Servers run in the sandbox: they write to the project alone and reach nobody, unless their entry says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.sandbox import sandbox_of
from amplifier_module_tool_mcp import _confinement

Session = Any
Odd = Callable[..., dict[str, Any]]


@pytest.fixture
def _sandboxed(session: Session) -> None:
    """Skip where there is no sandbox."""
    status = sandbox_of(session.coordinator, {}).status
    if not status.is_active:
        pytest.skip(f"no sandbox here: {status.reason}")


@pytest.mark.usefixtures("_sandboxed")
async def test_inside(session: Session, sample: dict[str, Any], project: Path, tmp_path: Path) -> None:
    """A server writes to the project, not beside it; the result names the sandbox, and an event tells it."""
    await session.open({"s": sample})
    assert (await session.told("connected"))["sandbox"] == "active"
    assert (await session.call("s_write", path="inside.txt")).success
    assert (project / "inside.txt").read_text() == "written"
    await session.call("s_write", path=str(tmp_path / "outside.txt"))
    assert not (tmp_path / "outside.txt").exists()
    for path in ("/usr/made-by-a-test", ".amplifier/settings.yaml"):
        refused = await session.call("s_write", path=path)
        assert not refused.success
        assert "The sandbox stopped it" in refused.output["content"]
        assert not (project / path).exists()
    blocked = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert [each["kind"] for each in blocked] == ["filesystem", "filesystem"]


@pytest.mark.usefixtures("_sandboxed")
async def test_the_status_is_told(session: Session, odd: Odd) -> None:
    """Whether servers run in the sandbox is said once, at the start."""
    await session.open({"odd": odd(), "other": odd()})
    await session.told("connected", 2)
    told = [data for event, data in session._recorder.events if event == "sandbox:status"]
    assert [(each["tool"], each["status"]) for each in told] == [("tool-mcp", "active")]


@pytest.mark.usefixtures("_sandboxed")
async def test_what_the_sandbox_stops(session: Session, odd: Odd) -> None:
    """A server that ends because it has no network says so, with the way to allow it."""
    await session.open({"odd": odd("exit", "Temporary failure in name resolution")}, retry={"attempts": 1})
    told = await session.told("failed")
    assert "The sandbox stopped it" in told["reason"]
    assert "the entry of the server 'odd'" in told["reason"]
    [blocked] = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert (blocked["tool"], blocked["kind"]) == ("tool-mcp", "network")


async def test_outside(session: Session, sample: dict[str, Any], tmp_path: Path) -> None:
    """An entry may switch the sandbox off."""
    await session.open({"s": {**sample, "sandbox": "off"}})
    assert (await session.told("connected"))["sandbox"] == "off"
    assert (await session.call("s_write", path=str(tmp_path / "outside.txt"))).success


async def test_required(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the session requires a sandbox and none can be had, no server is started, whatever its entry says."""
    monkeypatch.setenv("PATH", "/nonexistent")
    session.coordinator.config["session"]["sandbox"] = "required"
    await session.open({"odd": odd(sandbox="off")}, retry={"attempts": 3})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("sandbox_required", None)
    [blocked] = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert blocked["kind"] == "required"


async def test_wrong_settings(session: Session, odd: Odd) -> None:
    """A sandbox that is written wrongly is not taken for none."""
    await session.open({"odd": odd(sandbox={"netwerk": True})})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("sandbox_failed", None)
    assert "netwerk" in told["reason"]
    assert _confinement.Confinement(session.coordinator, None, session.connection().spec).status == "unknown"
