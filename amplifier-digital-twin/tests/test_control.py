"""The control socket, with both of its sides."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin import control
from amplifier_digital_twin.control import Client, ControlServer, Request
from amplifier_digital_twin.control_client import ask, connect
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.operations import ClientLeftError, while_heard

Serve = Callable[[Callable[[Client, Request], Awaitable[dict[str, Any]]]], Awaitable[ControlServer]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Return a way to serve requests on a socket in the test's folder."""
    servers: list[ControlServer] = []

    async def start(handle: Callable[[Client, Request], Awaitable[dict[str, Any]]]) -> ControlServer:
        server = ControlServer(tmp_path / "control.sock", handle)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop((), 30)
        await server.close()


async def _ask(path: Path, op: str, **options: Any) -> dict[str, Any]:
    return await asyncio.to_thread(lambda: ask(connect(path / "control.sock"), op, **options))


async def test_request_is_answered_with_progress_output_and_result(serve: Serve, tmp_path: Path) -> None:
    """Everything that is said arrives in order; bytes as they are."""

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        client.progress("on it")
        client.output("stdout", b"\xff\n\0")
        return {"asked": request}

    await serve(handle)
    heard: list[Any] = []
    result = await _ask(
        tmp_path,
        "something",
        arguments={"a": [1]},
        progress=heard.append,
        output=lambda stream, data: heard.append((stream, data)),
    )
    assert heard == ["on it", ("stdout", b"\xff\n\0")]
    assert result == {"asked": {"op": "something", "a": [1]}}


async def test_fault_arrives_with_code_and_remedy(serve: Serve, tmp_path: Path) -> None:
    """An error of the keeper is the same error for the program."""

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        raise TwinError("some_code", "what is wrong", "what to do")

    await serve(handle)
    with pytest.raises(TwinError) as fault:
        await _ask(tmp_path, "something")
    assert fault.value.record() == {"code": "some_code", "message": "what is wrong", "remedy": "what to do"}


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b'{"op": 1}\n', b"\xff\n"])
async def test_what_is_no_request_is_refused(serve: Serve, tmp_path: Path, line: bytes) -> None:
    """Nonsense gets an error, and the next client is served."""

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        return {}

    await serve(handle)

    def talk() -> Any:
        with connect(tmp_path / "control.sock") as connection, connection.makefile("rb") as answers:
            connection.sendall(line)
            return json.loads(answers.readline())

    assert (await asyncio.to_thread(talk))["error"]["code"] == "request_invalid"
    assert await _ask(tmp_path, "fine") == {}


async def test_client_that_says_nothing_and_leaves_is_forgotten(serve: Serve, tmp_path: Path) -> None:
    """A connection without a request does no harm."""

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        return {}

    await serve(handle)
    connect(tmp_path / "control.sock").close()
    assert await _ask(tmp_path, "fine") == {}


async def test_work_is_cancelled_when_its_client_leaves(serve: Serve, tmp_path: Path) -> None:
    """Nobody works for somebody who is gone."""
    ends: asyncio.Queue[str] = asyncio.Queue()

    async def work() -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            ends.put_nowait("cancelled")
        return {}

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        client.progress("begun")
        try:
            return await while_heard(client, work())
        except ClientLeftError:
            ends.put_nowait("left")
            raise

    await serve(handle)

    def leave() -> None:
        with connect(tmp_path / "control.sock") as connection, connection.makefile("rb") as answers:
            connection.sendall(b'{"op": "work"}\n')
            answers.readline()

    await asyncio.to_thread(leave)
    assert [await ends.get(), await ends.get()] == ["cancelled", "left"]


async def test_reader_that_does_not_keep_up_costs_output_and_is_told(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a slow reader makes the keeper remember is bounded; the rest is counted."""
    monkeypatch.setattr(control, "_MAX_UNREAD", 100_000)
    chunk = b"x" * 10_000

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        for _ in range(1000):
            client.output("stdout", chunk)
        return {}

    await serve(handle)
    heard: list[int] = []
    result = await _ask(tmp_path, "flood", output=lambda _, data: heard.append(len(data)))
    assert result["dropped_bytes"] > 0
    assert sum(heard) + result["dropped_bytes"] == 1000 * len(chunk)


async def test_stop_spares_who_waits_for_the_end(serve: Serve, tmp_path: Path) -> None:
    """Those under way are told that the universe has ended; the one that asked for it gets its answer."""
    tasks: dict[str, asyncio.Task[Any]] = {}
    over = asyncio.Event()
    both = asyncio.Event()

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        tasks[request["op"]] = task
        if len(tasks) == 2:
            both.set()
        await over.wait()
        return {"over": True}

    server = await serve(handle)
    working = asyncio.create_task(_ask(tmp_path, "work"))
    ending = asyncio.create_task(_ask(tmp_path, "destroy"))
    await both.wait()
    await server.stop({tasks["destroy"]}, 30)
    over.set()
    assert await ending == {"over": True}
    with pytest.raises(TwinError) as fault:
        await working
    assert fault.value.code == "universe_ended"


def test_keeper_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A socket nobody listens on, or none at all, is an error that says what to do."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "control.sock")) if len(str(tmp_path)) < 90 else None
    listener.close()
    with pytest.raises(TwinError) as fault:
        connect(tmp_path / "control.sock")
    assert fault.value.code == "keeper_unreachable"


async def test_keeper_that_hangs_is_given_up(serve: Serve, tmp_path: Path) -> None:
    """With patience for so long, a keeper that says nothing counts as ended."""
    left = asyncio.Event()

    async def handle(client: Client, request: Request) -> dict[str, Any]:
        await client.gone()
        left.set()
        return {}

    await serve(handle)
    with pytest.raises(TwinError) as fault:
        await _ask(tmp_path, "ping", patience=0.2)
    assert fault.value.code == "keeper_ended"
    await left.wait()
