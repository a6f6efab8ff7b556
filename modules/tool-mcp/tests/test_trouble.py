"""Servers that are slow, crash, flood, talk nonsense or never answer cost a session that tool alone, and say why."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_tool_mcp import process

Session = Any
Odd = Callable[..., dict[str, Any]]
QUICK = {"attempts": 3, "initial_delay": 0.01, "max_delay": 0.02, "failures": 100, "cooldown": 60.0}


async def test_slow_start_costs_the_first_turn_nothing(session: Session, odd: Odd, project: Path) -> None:
    """The session is ready while the server is not; its tools come when it is."""
    gate = project / "gate"
    await session.open({"odd": odd("slow", "gate")})
    asked = await session.coordinator.hooks.emit("provider:request", {"provider": "x"})
    assert asked.action != "deny"
    assert "- odd (0 tools): connecting" in asked.context_injection
    assert session.tools == {}
    gate.touch()
    await session.told("connected")
    assert "mcp_odd_echo" in session.tools
    asked = await session.coordinator.hooks.emit("provider:request", {"provider": "x"})
    assert "- odd (13 tools): connected" in asked.context_injection


async def test_a_call_waits_for_a_slow_server(make_session: Callable[[], Session], odd: Odd, project: Path) -> None:
    """With the list of last time the tools are there at once, and a call waits for the connection."""
    (project / "gate").touch()
    first = await make_session().open({"odd": odd("slow", "gate")})
    await first.told("connected")
    await first.connection().ready()
    await first.close()
    (project / "gate").unlink()
    session = await make_session().open({"odd": odd("slow", "gate")})
    assert "mcp_odd_echo" in session.tools
    call = asyncio.create_task(session.call("odd_echo", word="hello"))
    assert not (await asyncio.wait([call], timeout=0.2))[0]
    (project / "gate").touch()
    assert (await call).output["content"] == '{"word": "hello"}'
    assert session.events("tools_changed") == []


@pytest.mark.parametrize(
    ("now", "left_out"), [({"exclude_tools": ["crash", "n*"]}, {"crash", "never"}), ({"tools": ["e*"]}, {"flood"})]
)
async def test_a_list_of_last_time_keeps_to_the_config(
    make_session: Callable[[], Session], odd: Odd, project: Path, now: dict[str, Any], left_out: set[str]
) -> None:
    """A tool that the config leaves out now is not there, although the server offered it last time."""
    (project / "gate").touch()
    first = await make_session().open({"odd": odd("slow", "gate")})
    await first.told("connected")
    assert {f"mcp_odd_{name}" for name in left_out} <= set(first.tools)
    assert await wait_for(lambda: any(first.home.glob("cache/mcp/*.json")), timeout=60)
    await first.close()
    (project / "gate").unlink()
    session = await make_session().open({"odd": odd("slow", "gate", **now)})
    assert "mcp_odd_echo" in session.tools
    assert not {f"mcp_odd_{name}" for name in left_out} & set(session.tools)
    assert session.events("connected") == []


async def test_a_call_does_not_wait_for_ever(make_session: Callable[[], Session], odd: Odd, project: Path) -> None:
    """A call of a tool whose server does not come in time is told so."""
    (project / "gate").touch()
    first = await make_session().open({"odd": odd("slow", "gate")})
    await first.connection().ready()
    await wait_for(lambda: any(first.home.glob("cache/mcp/*.json")), timeout=60)
    await first.close()
    (project / "gate").unlink()
    session = await make_session().open({"odd": odd("slow", "gate", connect_timeout=0.3)}, retry=QUICK)
    result = await session.call("odd_echo")
    assert result.error["code"] == "mcp_unavailable"
    assert "not connected after 0.3 s" in result.error["message"]


@pytest.mark.parametrize(
    ("name", "fault", "reason"),
    [
        ("crash", "crashed", "it ended with exit code 3: it hurts"),
        ("flood", "flood", "'odd': it "),
        ("malformed", "malformed", "its output is not MCP messages"),
        ("huge", "flood", "bytes of unprocessed output"),
    ],
)
async def test_trouble_in_a_call(
    session: Session, odd: Odd, name: str, fault: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has a result with the reason, an event tells it, and the next call finds the server again."""
    if name != "crash":  # the others go on when they are asked to end
        monkeypatch.setattr(process, "_POLITE", 0.05)
    await session.open({"odd": odd()}, retry=QUICK, max_message_bytes=1 << 20)
    result = await session.call(f"odd_{name}")
    assert (result.success, result.error["code"], result.error["mcp_fault"]) == (False, "mcp_unavailable", fault)
    assert reason in result.error["message"]
    assert "may or may not have taken effect" in result.error["message"]
    told = await session.told("disconnected")
    assert (told["server"], told["code"]) == ("odd", fault)
    assert (await session.call("odd_echo", a=1)).output["content"] == '{"a": 1}'


async def test_an_answer_that_never_comes(session: Session, odd: Odd) -> None:
    """A call ends at its deadline; the server stays, and its other tools with it."""
    await session.open({"odd": odd(call_timeout=60)})
    await session.told("connected")
    assert session.connection().call_timeout == 60
    session.connection().call_timeout = 0.1
    result = await session.call("odd_never")
    assert result.error["code"] == "mcp_timeout"
    assert "within 0.1 s" in result.error["message"]
    session.connection().call_timeout = 60
    assert (await session.call("odd_echo")).success
    assert session.events("disconnected") == []


async def test_an_answer_of_a_wrong_form(session: Session, odd: Odd) -> None:
    """An answer that is not of the protocol is a result that says so, and the server stays."""
    await session.open({"odd": odd()})
    result = await session.call("odd_invalid")
    assert (result.success, result.error["mcp_fault"]) == (False, "malformed")
    assert (await session.call("odd_echo")).success


async def test_a_call_that_is_cancelled(session: Session, odd: Odd) -> None:
    """Cancelling a call harms no other."""
    await session.open({"odd": odd()})
    await session.told("connected")
    call = asyncio.create_task(session.call("odd_never"))
    await asyncio.wait([call], timeout=0.1)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert (await session.call("odd_echo")).success


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [("exit", "crashed"), ("garbage", "malformed"), ("endless", "flood"), ("silent", "connect_timeout")],
)
async def test_trouble_at_the_start(session: Session, odd: Odd, behaviour: str, code: str) -> None:
    """A server that cannot be used is tried three times, told as failed with the reason, and nothing else suffers."""
    entry = odd(behaviour, "no luck", connect_timeout=0.3 if behaviour == "silent" else 60)
    await session.open({"odd": entry, "fine": odd()}, retry=QUICK, max_message_bytes=1 << 20)
    told = await session.told("failed", 3)
    assert (told["server"], told["code"], told["attempt"], told["retry_in"]) == ("odd", code, 3, None)
    assert [event["retry_in"] is None for event in session.events("failed")] == [False, False, True]
    if behaviour == "exit":
        assert "exit code 1: cannot start: no luck" in told["reason"]
    assert session.connection().state == "failed"
    assert (await session.call("fine_echo")).success
    asked = await session.coordinator.hooks.emit("provider:request", {"provider": "x"})
    assert "- odd (0 tools): not available: " in asked.context_injection


@pytest.mark.parametrize("command", ["no-such-program-anywhere", "./servers/nothing", "${NO_SUCH_VARIABLE}/x"])
async def test_wrong_commands(session: Session, command: str) -> None:
    """A command that is not there, or a variable that is not set, is not tried again by itself."""
    await session.open({"odd": {"command": command}}, retry=QUICK)
    told = await session.told("failed")
    assert told["retry_in"] is None
    assert told["code"] == ("variable_missing" if "$" in command else "command_not_found")
    assert (command.strip("${}/x") in told["reason"]) or command in told["reason"]


async def test_stray_prints_are_forgiven(session: Session, odd: Odd) -> None:
    """A few lines that are no messages do no harm."""
    await session.open({"odd": odd("chatty")})
    assert (await session.call("odd_echo")).success


async def test_a_changed_list(session: Session, odd: Odd) -> None:
    """A server of the older protocol that tells of a change has its list asked for again."""
    await session.open({"odd": odd()})
    await session.call("odd_change")
    told = await session.told("tools_changed", 2)
    assert (told["added"], told["removed"]) == (["mcp_odd_fresh"], ["mcp_odd_never"])
    assert (await session.call("odd_fresh")).success


async def test_the_circuit_opens(session: Session, odd: Odd) -> None:
    """After so many failures in a row calls fail at once, with the reason of the last; later it is tried again."""
    retry = {**QUICK, "failures": 3, "cooldown": 1000.0}
    await session.open({"odd": odd("plain")}, retry=retry)
    await session.told("connected")
    session.connection().call_timeout = 0.1
    for _ in range(3):
        assert (await session.call("odd_never")).error["code"] == "mcp_timeout"
    session.connection().call_timeout = 60
    await session.told("disconnected")
    result = await session.call("odd_echo")
    assert result.error["code"] == "mcp_circuit_open"
    assert "did not answer within 0.1 s" in result.error["message"]
    session.connection()._circuit._last -= 1000
    assert (await session.call("odd_echo")).success


async def test_a_server_that_does_not_go(
    session: Session, odd: Odd, token: str, naps: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignores the end of its input is ended; so is one that is still starting."""
    monkeypatch.setattr(process, "_POLITE", 0.05)
    await session.open({"odd": odd("stays", token), "silent": odd("silent", token)})
    await session.told("connected")
    assert await wait_for(lambda: len(naps()) >= 2, timeout=60)
    await session.close()
    assert naps() == []


async def test_the_end_of_the_program(tmp_path: Path, token: str, naps: Callable[[], list[int]]) -> None:
    """Servers end with the program, even when it is killed."""
    program = (
        "import asyncio, sys\n"
        "from amplifier_core.testing import MockCoordinator\n"
        "from amplifier_module_tool_mcp import mount, on_session_ready\n"
        "async def main():\n"
        "    coordinator = MockCoordinator()\n"
        f"    coordinator.register_capability('amplifier.home', {str(tmp_path)!r})\n"
        f"    coordinator.register_capability('session.working_dir', {str(Path(__file__).parent)!r})\n"
        f"    entry = {{'command': sys.executable, 'args': ['servers/odd.py', 'stays', {token!r}]}}\n"
        "    await mount(coordinator, {'servers': {'odd': entry}})\n"
        "    await on_session_ready(coordinator)\n"
        "    await coordinator.get_capability('mcp.servers').connections['odd'].ready()\n"
        "    sys.stdout.write('ready\\n'); sys.stdout.flush()\n"
        "    await asyncio.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    assert naps()
    process.kill()
    await process.communicate()
    assert await wait_for(lambda: not naps(), timeout=60)
