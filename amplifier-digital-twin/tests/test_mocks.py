"""Mock services are waited for, watched and ended."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.mocks import Mocks
from amplifier_digital_twin.profile.model import Mock, User
from amplifier_digital_twin.recorder import Recorder

USER = User()


class Stage:
    """A twin and its sockets, where programs are coroutines: `listen N` listens on port N, `fail` ends."""

    def __init__(self, refusals: int = 0) -> None:
        self.runs: list[Run] = []
        self.listening: set[int] = set()
        self.cancelled: list[str] = []
        self._refusals = refusals

    async def run(self, run: Run, sink: Any = None) -> Finished:
        """Run a program until it is cancelled."""
        self.runs.append(run)
        what = run.argv[2].split()
        if what[0] == "fail":
            return Finished(3, b"", b"x" * 3000 + b"the reason", False, False, 0.0)
        self.listening.add(int(what[1]))
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.append(run.argv[2])
            self.listening.discard(int(what[1]))
        raise AssertionError

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect to a program; the first few times it is not there yet."""
        await asyncio.sleep(0)
        if port not in self.listening or self._refusals > 0:
            self._refusals -= 1
            raise ConnectionRefusedError(111, "Connection refused")
        return socket.socket()


def make(tmp_path: Path, *mocks: Mock) -> tuple[Mocks, Path]:
    """Return mocks and where they log."""
    path = tmp_path / "log.jsonl"
    return Mocks(mocks, Recorder(path, ["hidden-value"])), path


async def start(mocks: Mocks, stage: Any) -> None:
    """Start them on a stage."""
    await mocks.start(stage, stage, {"KEY": "value"}, USER)


async def test_mocks_are_up_when_start_returns(tmp_path: Path) -> None:
    """Each runs in the user's home with the whole environment, and answers."""
    mocks, _ = make(tmp_path, Mock("a", "listen 1", 1), Mock("b", "listen 2", 2))
    stage = Stage(refusals=3)
    await start(mocks, stage)
    assert stage.listening == {1, 2}
    assert [(run.cwd, run.environment, run.user) for run in stage.runs] == [(USER.home, {"KEY": "value"}, USER)] * 2
    await mocks.stop()
    await mocks.stop()
    assert stage.cancelled == ["listen 1", "listen 2"]


async def test_mock_that_ends_is_an_error_with_a_log(tmp_path: Path) -> None:
    """The port is in the message, the end of what it wrote in the log."""
    mocks, path = make(tmp_path, Mock("a", "fail hidden-value", 7))
    with pytest.raises(TwinError, match="`a` does not answer on port 7") as caught:
        await start(mocks, Stage())
    assert caught.value.code == "mock_failed"
    [event] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert (event["event"], event["exit_code"]) == ("mock:ended", 3)
    assert event["stderr"].endswith("the reason")
    await mocks.stop()


async def test_mock_that_never_answers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience has an end."""
    monkeypatch.setattr("amplifier_digital_twin.mocks._PATIENCE", 0.1)
    mocks, _ = make(tmp_path, Mock("a", "listen 8", 9))
    stage = Stage()
    with pytest.raises(TwinError, match="port 9"):
        await start(mocks, stage)
    await mocks.stop()
    assert stage.cancelled == ["listen 8"], "it was running all the same"
