"""A process is told from another one that has its number."""

from __future__ import annotations

import os
import subprocess

from amplifier_digital_twin.holder import Holder


def test_this_process_lives() -> None:
    """The current process is alive, and survives being written down."""
    holder = Holder.current()
    assert holder.is_alive
    assert Holder.from_record(holder.record()) == holder


def test_number_alone_is_not_the_process() -> None:
    """Another start, or another boot, is another process."""
    holder = Holder.current()
    assert not holder._replace(ticks=holder.ticks - 1).is_alive
    assert not holder._replace(boot="another").is_alive


def test_process_that_ended_but_was_not_reaped_is_dead() -> None:
    """A zombie keeps its number, but keeps no universe."""
    process = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Holder.of(process.pid) is None
    finally:
        process.wait()


def test_odd_process_names_are_read(tmp_path: object) -> None:
    """A name with blanks and parentheses does not shift the fields."""
    with open("/proc/self/comm", encoding="utf-8") as file:
        before = file.read().strip()
    expected = Holder.current()
    try:
        with open("/proc/self/comm", "w", encoding="utf-8") as file:
            file.write("a) S 1 (b")
        assert Holder.current() == expected
    finally:
        with open("/proc/self/comm", "w", encoding="utf-8") as file:
            file.write(before)
