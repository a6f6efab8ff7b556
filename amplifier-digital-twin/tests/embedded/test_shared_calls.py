"""What no namespace divides is refused to all inside: keys, the hypervisor's sockets, calls to the whole machine."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.inhabitants import inhabitants

#: Makes a call by its number, and prints the error's number, or that there was none.
CALL = (
    "import ctypes, os\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "def call(*words):\n"
    " words = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]\n"
    ' print(ctypes.get_errno() if libc.syscall(*words) < 0 else "done")\n'
)
ALLOWED = 0x7FFF0000


def everybody(keeper: Any) -> list[list[object]]:
    """Return all users that a universe has."""
    return [["user", 1000]] + ([["root", 0]] if keeper.has_root else [])


def numbers() -> dict[str, int]:
    """Return the refused calls of this machine by name."""
    names = ("add_key", "request_key", "keyctl", "io_uring_setup", "userfaultfd", "syslog", "perf_event_open", "bpf")
    return dict(zip(names, call_filter.MACHINES[os.uname().machine].refused, strict=True))


def test_keys_of_the_host_cannot_be_reached(kept: Any) -> None:
    """Nobody inside can make, find or read a key: they belong to the user of the host, in every namespace."""
    call = numbers()
    text = (
        f'{CALL}call({call["add_key"]}, b"user", b"name", b"value", 5, -4)\n'
        f'call({call["request_key"]}, b"user", b"name", None, -3)\n'
        f"call({call['keyctl']}, 0, -4, 1)\ncall({call['keyctl']}, 1, 0)\n"
    )
    for user in everybody(kept):
        assert kept.python(text, **{"as": user}) == f"{errno.EPERM}\n" * 4


def test_files_of_proc_that_tell_of_the_host_are_empty(kept: Any) -> None:
    """Neither the keys of the host's users nor the words that its kernel was started with can be read."""
    for user in everybody(kept):
        for name in ("keys", "key-users", "cmdline"):
            if os.path.exists(f"/proc/{name}"):
                done = kept.order("run", shell=f"cat /proc/{name}", **{"as": user})
                assert (done["code"], done["out"]) == (0, ""), name
                assert kept.order("run", shell=f"umount /proc/{name}", **{"as": user})["code"] != 0


def test_calls_that_reach_the_whole_machine_are_refused(kept: Any) -> None:
    """Queues of calls that no filter sees, faults of others, the kernel's log, counters and programs are not for it."""
    call = numbers()
    text = (
        f"{CALL}room = ctypes.create_string_buffer(256)\ncall({call['io_uring_setup']}, 4, room)\n"
        f"call({call['userfaultfd']}, 1)\ncall({call['syslog']}, 10, None, 0)\n"
        f"call({call['perf_event_open']}, room, 0, -1, -1, 0)\ncall({call['bpf']}, 0, room, 72)\n"
    )
    for user in everybody(kept):
        assert kept.python(text, **{"as": user}) == f"{errno.EPERM}\n" * 5


def test_sockets_lead_only_to_the_universes_own_network(kept: Any) -> None:
    """Of all kinds of sockets those of the network namespace can be made, and none that leads to the hypervisor."""
    text = (
        "import socket\n"
        "for family in range(46):\n"
        " try: socket.socket(family, socket.SOCK_DGRAM).close(); print(family)\n"
        f" except OSError as error: assert family == 0 or error.errno == {errno.EAFNOSUPPORT}, (family, error)\n"
        "pair = socket.socketpair()\nassert pair[0].send(bytes(1)) == 1\n"
    )
    assert kept.python(text).split() == ["1", "2", "10", "16"]


def test_everybody_inside_is_filtered(kept: Any) -> None:
    """The processes that hold the universe are filtered like its commands: a command could make them do its work."""
    first = kept.order("state")["pid"]
    states = [Path(f"/proc/{first}/status").read_text(encoding="utf-8")]
    for pid in inhabitants(first):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # what a command has left may just be ending
            states.append(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert ["Seccomp:\t2\n" in state for state in states] == [True] * len(states)
    assert "Seccomp:\t2\n" in kept.shell("cat /proc/self/status")


def test_strict_isolation_wants_the_filter(keeper: Any) -> None:
    """Where calls cannot be filtered, a strict universe is not made, and one of best effort says what it lacks."""
    keeper.order("forbid_call_filters")
    with pytest.raises(keeper.refusal, match="seccomp cannot be had: not in this test") as caught:
        keeper.order("create")
    assert caught.value.code == "feature_missing"
    notes = keeper.order("create", is_strict=False)["notes"]
    assert [note for note in notes if "not in this test" in note]
    assert keeper.shell("echo runs") == "runs\n"
    assert keeper.order("probe")[2]["seccomp"] == "not in this test"


def test_the_filter_is_probed(kept: Any) -> None:
    """The probe tries the filter out and says so."""
    assert kept.order("probe")[2]["seccomp"] == "yes"


def _answer(program: bytes, machine: int, number: int, argument: int = 0) -> int:
    """Judge a call as the kernel does."""
    call = struct.pack("IIQQ", number, machine, 0, argument)
    steps = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    place, value = 0, 0
    while True:
        code, then, otherwise, constant = steps[place]
        place += 1
        if code == 0x20:
            (value,) = struct.unpack_from("I", call, constant)
        elif code == 0x06:
            return int(constant)
        else:
            place += then if (value == constant if code == 0x15 else value >= constant) else otherwise


@pytest.mark.parametrize("name", sorted(call_filter.MACHINES))
def test_the_filter_judges_every_call(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On each machine that is known just the calls named are refused, and all of a program for another machine."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=name))
    program, machine = call_filter.filter_program(), call_filter.MACHINES[name]
    refused = {number for number in range(600) if _answer(program, machine.audit, number, 2) != ALLOWED}
    assert refused == set(machine.refused)
    for number in machine.sockets:
        families = {family for family in range(60) if _answer(program, machine.audit, number, family) == ALLOWED}
        assert families == {1, 2, 10, 16}
        assert _answer(program, machine.audit, number, 40) == 0x50000 | errno.EAFNOSUPPORT
    assert _answer(program, 0x40000003, 1) == 0x50000 | errno.ENOSYS
    assert _answer(program, machine.audit, 0x40000000 + machine.refused[0]) == 0x50000 | errno.ENOSYS


def test_a_machine_that_is_not_known_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be filtered is said, with the machines that can be."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    assert call_filter.filter_program() == b""
    assert "riscv64" in call_filter.missing_reason()
    assert "x86_64, aarch64" in call_filter.missing_reason()
