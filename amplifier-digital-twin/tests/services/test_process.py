"""The service process begins with an answer, ends with its universe, and leaves no socket behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.processes import ProcessIdentity
from amplifier_digital_twin.profile.model import ForwardedPort
from amplifier_digital_twin.services import request_log
from amplifier_digital_twin.services.config import ServicesConfig
from amplifier_digital_twin.services.download_cache import DownloadCache
from amplifier_digital_twin.state import Folder, Home


def refused(path: Path) -> dict[str, Any]:
    """Run the services with a config that cannot be used; return the error."""
    command = [sys.executable, "-m", "amplifier_digital_twin.services.process", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stdout.splitlines()
    error: dict[str, Any] = json.loads(line)["error"]
    assert error.keys() == {"code", "message", "remedy"}
    return error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_ends_when_told(start: Any, number: int) -> None:
    """On SIGTERM and SIGINT the process ends with code 0, and its sockets are gone."""
    universe = await start()
    assert {path.name for path in universe.config.sockets.iterdir()} == {"index.sock", "git.sock", "proxy.sock"}
    universe.process.send_signal(number)
    assert await universe.process.wait() == 0
    assert list(universe.config.sockets.iterdir()) == []


async def test_ends_with_its_universe(start: Any, tmp_path: Path) -> None:
    """The process ends when the holder of its universe has ended; which one that is can change while it runs."""
    first, second = [await asyncio.create_subprocess_exec("sleep", "600") for _ in range(2)]
    folder = _universe(tmp_path, holder=ProcessIdentity.of(first.pid))
    services = await start(universe=folder.path)
    folder.update(holder=ProcessIdentity.of(second.pid))
    first.kill()
    await first.wait()
    await asyncio.sleep(1)
    assert (await services.get("/simple/x/"))[0] == 404
    second.kill()
    await second.wait()
    assert await services.process.wait() == 0
    assert list(services.config.sockets.iterdir()) == []


async def test_ends_with_the_lease(start: Any, tmp_path: Path) -> None:
    """After the lease of its universe the process ends, whoever still runs."""
    services = await start(universe=_universe(tmp_path, lease_until=time.time() + 1).path)
    assert await services.process.wait() == 0


async def test_ends_when_its_universe_is_removed(start: Any, tmp_path: Path) -> None:
    """Nothing serves a universe that has no directory any more."""
    folder = _universe(tmp_path)
    services = await start(universe=folder.path)
    shutil.rmtree(folder.path)
    assert await services.process.wait() == 0


def _universe(path: Path, **changes: Any) -> Folder:
    """Make the directory of a universe."""
    found = Home(path / "home").create(name=None, profile="p", profile_path=path, lease=600)
    found.folder.update(**changes)
    return found.folder


def test_errors_at_the_start(tmp_path: Path) -> None:
    """A config that is missing, damaged or impossible is one line with an error, and leaves no socket."""
    assert refused(tmp_path / "missing.json")["code"] == "services_config_invalid"
    config = ServicesConfig(
        sockets=tmp_path / "s", state=tmp_path / "state", log=tmp_path / "log", cache=tmp_path / "cache"
    )
    path = tmp_path / "config.json"
    path.write_text(config.model_dump_json()[:-1] + ',"sokets":1}', encoding="utf-8")
    assert "sokets" in refused(path)["message"]
    repositories = [{"url": "https://github.com/a/b", "path": str(tmp_path)}]
    ServicesConfig.model_validate({**config.model_dump(), "repositories": repositories}).save(path)
    assert refused(path)["code"] == "repository_invalid"
    assert list((tmp_path / "s").iterdir()) == []


async def test_long_paths(start: Any) -> None:
    """The directory of the sockets may have a path that is too long for the address of a socket."""
    universe = await start(name="x" * 120)
    folder = os.open(universe.config.sockets, os.O_PATH)
    reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/git.sock")
    writer.write(b"0000")
    assert await reader.read() == b""
    writer.close()
    os.close(folder)


async def test_sockets_of_a_killed_process_are_replaced(start: Any) -> None:
    """After SIGKILL the next process for the same directory takes over its sockets."""
    universe = await start()
    universe.process.kill()
    await universe.process.wait()
    assert len(list(universe.config.sockets.iterdir())) == 3
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "amplifier_digital_twin.services.process", str(universe.path)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert json.loads(await process.stdout.readline())["ready"]
    assert (await universe.get("/simple/x/"))[0] == 404
    process.terminate()
    await process.wait()


async def test_files_are_private(start: Any) -> None:
    """Nothing that the process writes can be read by other users; only the sockets are for everyone inside."""
    universe = await start()
    await universe.get("/simple/x/")
    for path in (universe.config.log, universe.config.state, universe.config.state / "served.json"):
        assert path.stat().st_mode & 0o077 == 0, path


async def test_ports_of_loopback_lead_inside(start: Any) -> None:
    """Each connection becomes the streams of a command inside."""
    inside = ("/bin/sh", "-c", 'read line; echo heard "$line" for "$3"', "sh")
    universe = await start(ports=(ForwardedPort(container=80, label="web", path="/x"),), inside=inside)
    (opened,) = universe.ports
    assert (opened["container"], opened["url"]) == (80, f"http://127.0.0.1:{opened['host']}/x")
    reader, writer = await asyncio.open_connection("127.0.0.1", opened["host"])
    writer.write(b"this\n")
    assert await reader.read() == b"heard this for TCP:127.0.0.1:80\n"
    writer.close()


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """A port of the host that something else uses is reported with the remedy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        folders = {name: tmp_path / name for name in ("sockets", "state", "log", "cache")}
        port = ForwardedPort(container=80, host=taken.getsockname()[1])
        ServicesConfig(ports=(port,), **folders).save(tmp_path / "config.json")
        assert refused(tmp_path / "config.json")["code"] == "port_taken"


def test_identity_of_a_process() -> None:
    """A process that has ended, is a zombie, or has the number of an earlier one is not the one that is meant."""
    child = subprocess.Popen(["sleep", "600"])
    known = ProcessIdentity.of(child.pid)
    assert known.is_running()
    assert not known.model_copy(update={"start_time": known.start_time + 1}).is_running()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not known.is_running()
    child.wait()
    assert not known.is_running()


def test_eviction(tmp_path: Path) -> None:
    """What was used longest ago goes first, until the size fits; recent files and running downloads stay."""
    cache = DownloadCache(tmp_path, 250)
    for number, age in enumerate([5000, 3000, 1000, 0]):
        path = tmp_path / "files" / "aa" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (time.time() - age,) * 2)
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "running").write_bytes(b"x")
    (incoming / "killed").write_bytes(b"x")
    os.utime(incoming / "killed", (1, 1))
    cache.evict()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["2", "3", "running"]


def test_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A universe that asks without end does not fill the disk: the last line says that nothing more is recorded."""
    monkeypatch.setattr(request_log, "MAX_BYTES", 1000)
    log = request_log.RequestLog(tmp_path / "log")
    for number in range(50):
        log.record("index", "a.example", f"/{number}", 404, allowed=False)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert 2 < len(lines) < 20
    assert "nothing more is recorded" in lines[-1]["reason"]
    assert (tmp_path / "log").stat().st_size < 1500
