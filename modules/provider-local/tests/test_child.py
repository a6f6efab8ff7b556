"""The child process: it is nobody else's, it is there when it is used, and it goes when it is not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from amplifier_core.testing import wait_for
from amplifier_module_provider_local import LocalProvider
from amplifier_testing.llm.rig import ask

Make = Callable[..., LocalProvider]
Pid = Callable[[LocalProvider], Awaitable[int | None]]

PARENT = """
import asyncio, os, sys
from amplifier_core.testing import MockCoordinator
from amplifier_testing.llm.rig import ask
from amplifier_module_provider_local import LocalProvider

async def main():
    config = {"threads": 1, "context_window": 4096, "max_tokens": 3000}
    provider = LocalProvider(config, MockCoordinator())
    async def tell(event, data):
        if event == sys.argv[1] and data.get("phase") != "loaded":
            while True:
                [host] = (await provider.client()).hosts
                if host.pid:
                    break
                await asyncio.sleep(0.01)
            print(host.pid, os.path.dirname(host.socket), flush=True)
    provider.coordinator.hooks.register(sys.argv[1], lambda e, d: asyncio.ensure_future(tell(e, d)) and None)
    await provider.complete(ask("Tell me a long story."))

asyncio.run(main())
"""


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has only not been waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("moment", ["provider:progress", "llm:stream_block_delta"], ids=["loading", "answering"])
async def test_a_killed_parent_leaves_no_child(weights: Path, moment: str) -> None:
    """When the program is killed, while loading or while answering, its child is gone too."""
    parent = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", PARENT, moment], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        line = await asyncio.to_thread(parent.stdout.readline)
        pid, _, folder = line.strip().partition(" ")
        was_alive = is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
    assert was_alive
    assert await wait_for(lambda: not is_alive(int(pid)), timeout=30)
    if moment == "llm:stream_block_delta":
        assert await wait_for(lambda: not Path(folder).exists(), timeout=30)
    else:
        shutil.rmtree(folder, ignore_errors=True)  # while it loads, nobody but the system can end it


async def test_nobody_else_can_ask(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine listens in a folder that is only ours, wants a key, and knows none of our secrets."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    provider = make()
    await provider.complete(ask())
    [host] = (await provider.client()).hosts
    folder = Path(host.socket).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=host.socket)) as stranger:
        asked = await stranger.post("http://localhost/v1/chat/completions", json={"messages": []})
        assert asked.status_code == 401
    if sys.platform == "linux":
        assert b"very-secret" not in Path(f"/proc/{host.pid}/environ").read_bytes()
        assert b"Bearer" not in Path(f"/proc/{host.pid}/cmdline").read_bytes()
        inodes = {os.readlink(link) for link in Path(f"/proc/{host.pid}/fd").iterdir()}
        tables = [Path(f"/proc/{host.pid}/net/{name}").read_text(encoding="utf-8") for name in ("tcp", "tcp6")]
        listening = {line.split()[9] for table in tables for line in table.splitlines()[1:]}
        assert not {f"socket:[{inode}]" for inode in listening} & inodes
    assert os.getsid(host.pid) != os.getsid(0)
    await provider.close()
    assert not folder.exists()


async def test_idle_memory_is_given_back(make: Make, pid_of: Pid) -> None:
    """After `keep_alive` the child is gone, and the next request loads the model again."""
    provider = make(keep_alive=0)
    assert (await provider.complete(ask())).text
    [host] = (await provider.client()).hosts
    assert await wait_for(lambda: host.pid is None, timeout=30)
    assert (await provider.complete(ask())).text
    for_ever = make(keep_alive=-1)
    await for_ever.complete(ask())
    await asyncio.sleep(0.1)
    assert await pid_of(for_ever) is not None


async def test_providers_share_a_child(make: Make, pid_of: Pid) -> None:
    """Two providers of one model use one process, which ends with the last of them."""
    one, other = make(), make()
    await asyncio.gather(one.complete(ask()), other.complete(ask()))
    pid = await pid_of(one)
    assert pid is not None
    assert await pid_of(other) == pid
    await one.close()
    assert is_alive(pid)
    await other.close()
    assert not is_alive(pid)
    assert (await one.complete(ask())).text


async def test_a_child_that_died_is_replaced(make: Make, pid_of: Pid) -> None:
    """A child that was killed while it was idle is replaced; one killed while answering is an error that is retried."""
    provider = make()
    await provider.complete(ask())
    [host] = (await provider.client()).hosts
    first = host.pid
    os.kill(first, signal.SIGKILL)
    assert await wait_for(lambda: host.pid is None, timeout=30)  # its threads may outlive what /proc says
    killed: list[int] = []

    async def kill(event: str, data: object) -> None:
        if not killed:
            pid = await pid_of(provider)
            assert pid is not None
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    retries: list[dict[str, object]] = []
    provider.coordinator.hooks.register("llm:stream_block_delta", kill)
    provider.coordinator.hooks.register("provider:retry", lambda event, data: retries.append(data))
    assert (await provider.complete(ask("Tell me a story."))).text
    assert [retry["error_type"] for retry in retries] == ["StreamError"]
    assert await pid_of(provider) not in (None, first, *killed)


async def test_a_broken_connection_does_not_kill_the_child(make: Make, pid_of: Pid) -> None:
    """A child that still answers is kept when a connection to it broke, and no connection is used twice."""
    provider = make()
    await provider.complete(ask())
    [host] = (await provider.client()).hosts
    pid = host.pid
    # Not after a streamed answer: the engine closes that connection itself, though it says that it keeps it.
    assert (await host._client.get("/health")).status_code == 200
    assert host._client._transport._pool.connections == []
    with pytest.raises(httpx2.ReadError):
        async with host.asking(_silent):
            raise httpx2.ReadError("broken")
    assert (await provider.complete(ask())).text
    assert await pid_of(provider) == pid


async def _silent(phase: str, seconds: float) -> None:
    """Be told nothing."""


async def test_cancelled_while_loading(make: Make) -> None:
    """A call that is cancelled while the model is loaded leaves no child and no folder; the next one works."""
    provider = make()
    loading = asyncio.Event()
    provider.coordinator.hooks.register("provider:progress", lambda event, data: loading.set())
    task = asyncio.create_task(provider.complete(ask()))
    await loading.wait()
    [host] = (await provider.client()).hosts
    assert await wait_for(lambda: host.pid is not None, timeout=30)
    pid, folder = host.pid, Path(host.socket).parent
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)
    assert not folder.exists()
    assert (await provider.complete(ask())).text
