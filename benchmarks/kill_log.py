"""A process that writes a session log, killed: each acknowledged line must be there, whole and in order.

Each process continues the log that the one before it left, writes lines of every kind (small and large ones, growing
lists, rotations), and acknowledges each line after it was written.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from kills import Tally

#: So many kills in a row hit the same session.
KILLS_PER_SESSION = 10
#: A writer is killed at the latest after so many seconds of writing.
LONGEST = 0.2
ROTATE_AT = 8_000_000


def write_until_killed(folder: Path, seed: int) -> None:
    """Write lines for ever and say after each one, on standard output, which number it had."""
    from amplifier_kit.log.writer import SessionLog

    chance = random.Random(seed)
    log = SessionLog(folder, verify=True, max_bytes=ROTATE_AT)
    history = [message(chance, 40)]
    os.write(1, b"ready\n")
    while True:
        log.write({"event": "kill:test", "session_id": folder.name, "data": payload(chance, history)})
        os.write(1, b"%d\n" % log.seq)


def message(chance: random.Random, words: int) -> dict[str, Any]:
    """Make a message."""
    return {"role": "user", "content": " ".join(str(chance.random()) for _ in range(words))}


def payload(chance: random.Random, history: list[dict[str, Any]]) -> dict[str, Any]:
    """Make the payload of one line: most are small, some large, some as long as lines get."""
    kind = chance.random()
    if kind < 0.7:
        return {"text": "small " * chance.randrange(50)}
    if kind < 0.8:
        return {"large": f"{chance.random()} " * chance.randrange(300, 20_000)}
    if kind < 0.95:
        history.append(message(chance, chance.randrange(1, 60)))
        return {"messages": history}
    # Each value is small, so all of it stays in the line: up to megabytes in one write, which a kill may cut short.
    return {f"key-{index}": "v" * 4000 for index in range(10 ** chance.randrange(1, 4))}


class LogWriter:
    """A process that writes a session log."""

    title: ClassVar = "a process that writes a session log"
    words: ClassVar = (
        "A process writes small and large lines, growing lists and rotations, and acknowledges each line after writing "
        "it. After every kill each acknowledged line is read back, the hash chain and every blob are checked, the "
        "numbers have no gaps, and at most the line being written is torn; the next process continues the same log.\n"
        "`make bench-kills` counts again."
    )
    shown: ClassVar = {
        "sessions": "Sessions",
        "acknowledged": "Lines acknowledged",
        "lost": "Lost",
        "torn": "Torn and skipped",
        "rotated": "Rotations",
    }
    at_once: ClassVar = 1

    def __init__(self, folder: Path) -> None:
        self._parent = folder
        #: The session that is killed now, the last line that it acknowledged, and its lines that were torn.
        self._folder: Path | None = None
        self._last = self._torn = 0

    def kill(self, chance: random.Random, tally: Tally) -> None:
        """Kill one writer, and look at what it left."""
        if self._folder is None or tally.counts["kills"] % KILLS_PER_SESSION == 0:
            self.finish(tally)
            tally.counts["sessions"] += 1
            self._folder, self._last, self._torn = self._parent / f"session-{tally.counts['sessions']}", 0, 0
        said = kill_once(self._folder, chance.uniform(0, LONGEST), chance.randrange(10**9))
        tally.counts.update(kills=1, acknowledged=max(0, said - self._last))
        self._last = max(self._last, said)
        self._inspect(self._folder, tally)

    def _inspect(self, folder: Path, tally: Tally) -> None:
        from amplifier_kit.log.verify import verify_log

        report = verify_log(folder)
        tally.faults += [f"{problem.kind}: {problem.text}" for problem in report.problems]
        last = report.last_seq or 0
        if last != report.lines:
            tally.faults.append(f"there are {report.lines} lines, and the last one has number {last}")
        if last < self._last:
            tally.counts["lost"] += self._last - last
            tally.faults.append(f"line {self._last} was acknowledged, the last one there is {last}")
        if len(report.torn) > self._torn + 1:
            tally.faults.append(f"{len(report.torn) - self._torn} lines were torn by one kill")
        self._torn = len(report.torn)

    def finish(self, tally: Tally) -> None:
        """Continue a session once more, in peace, and see that the log is whole."""
        from amplifier_kit.log.verify import verify_log
        from amplifier_kit.log.writer import SessionLog

        if self._folder is None:
            return
        folder = self._folder
        with SessionLog(folder, verify=True) as log:
            log.write({"event": "kill:end", "data": {}})
            expected = log.seq
        report = verify_log(folder)
        if report.last_seq != expected or not report.ok:
            tally.faults.append(f"after the last kill the log ends with {report.last_seq}, not {expected}")
        tally.counts.update(torn=len(report.torn), rotated=len(list(folder.glob("events.*.jsonl"))))


def kill_once(folder: Path, seconds: float, seed: int) -> int:
    """Let a process write for some time, kill it, and return the last line it acknowledged, 0 for none."""
    command = [sys.executable, __file__, str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        if first != b"ready\n":
            raise RuntimeError(f"the writer did not start (it said {first!r})")
        # The pipe is not read meanwhile: if it fills, the writer blocks, and a kill then is a case like any other.
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        said = writer.stdout.read()
    whole = said.rpartition(b"\n")[0].split()
    return int(whole[-1]) if whole else 0


if __name__ == "__main__":
    write_until_killed(Path(sys.argv[1]), int(sys.argv[2]))
