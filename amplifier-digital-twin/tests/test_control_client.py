"""The program's side of the control socket, by itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.control_client import ask
from amplifier_digital_twin.errors import TwinError

#: Gets its signal in another thread, so that the wait of this one is not interrupted: what is true of a signal that
#: comes just before Python begins to wait.
_UNINTERRUPTED = """
import os, signal, socket, threading, time
from amplifier_digital_twin.cli.interruption import Interrupted, interruptible
from amplifier_digital_twin.control_client import ask

ours, theirs = socket.socketpair()

def send():
    theirs.recv(100)
    time.sleep(0.3)  # by now it waits; where it does not yet, the signal is heard anyway
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()

with interruptible():
    threading.Thread(target=send, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        ask(ours, "launch")
    except Interrupted as error:
        print("heard", error.exit_code, flush=True)
        os._exit(0)
"""


def test_a_signal_that_interrupts_no_wait_is_heard() -> None:
    """Ctrl-C is not lost until the keeper says something, which may be never."""
    program = [sys.executable, "-c", _UNINTERRUPTED]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "heard 143\n"), done.stderr


@given(
    st.lists(st.text(max_size=20), max_size=5),
    st.lists(st.integers(min_value=1, max_value=200), min_size=1, max_size=20),
)
def test_records_are_read_however_they_are_cut(words: list[str], cuts: list[int]) -> None:
    """What the keeper says arrives whole and in order, in whatever pieces the socket hands it over."""
    records: list[dict[str, Any]] = [{"progress": word} for word in words] + [{"result": {"done": True}}]
    sent = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    ours, theirs = socket.socketpair()
    heard: list[str] = []
    pieces = iter(cuts * len(sent))

    class Cut(socket.socket):
        def recv(self, size: int, flags: int = 0) -> bytes:
            return super().recv(min(size, next(pieces)), flags)

    with theirs, Cut(fileno=ours.detach()) as connection:
        theirs.sendall(sent)
        assert ask(connection, "look", progress=heard.append) == {"done": True}
    assert heard == words


@pytest.mark.parametrize("said", [b"", b'{"progress": "x"}\n', b'{"resul', b"nonsense\n"])
def test_a_keeper_that_ends_without_an_answer_is_told(said: bytes) -> None:
    """Nothing, half an answer and nonsense are the end of a keeper, with a code."""
    ours, theirs = socket.socketpair()
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)
    with theirs, pytest.raises(TwinError) as caught:
        ask(ours, "look")
    assert caught.value.code == "keeper_ended"
