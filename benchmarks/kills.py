"""Kill a process that writes a session log, again and again, look at what is left, and write docs/reliability.md.

    python benchmarks/kills.py [--kills 500] [--seed N] [--output FILE]

Each process continues the log that the one before it left, writes lines of every kind (small and large ones, growing
lists, rotations), and acknowledges each line after it was written. It is killed with SIGKILL at a random moment. After
every kill each acknowledged line must be there, whole and in order, and nothing but the last line may be torn.
Exits 1 unless all of that held every time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from document import ROOT, circumstances, table, write_section
from exits import HEADING

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


@dataclass
class Tally:
    """What was counted."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    torn: int = 0
    rotated: int = 0
    sessions: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass
class Session:
    """One session that is killed several times, and what is known of it."""

    folder: Path
    last_acknowledged: int = 0
    torn: int = 0
    kills: int = 0


def kill_once(session: Session, seconds: float, seed: int) -> int:
    """Let a process write for some time, kill it, and return the number of the last line it acknowledged."""
    command = [sys.executable, __file__, "--write", str(session.folder), "--seed", str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        if first != b"ready\n":
            raise SystemExit(f"the writer did not start (it said {first!r})")
        # The pipe is not read meanwhile: if it fills, the writer blocks, and a kill then is a case like any other.
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        said = writer.stdout.read()
    whole = said.rpartition(b"\n")[0].split()
    return int(whole[-1]) if whole else session.last_acknowledged


def inspect(session: Session, tally: Tally) -> None:
    """Look at what a kill left, and note what is wrong."""
    from amplifier_kit.log.verify import verify_log

    report = verify_log(session.folder)
    tally.faults += [f"{problem.kind}: {problem.text}" for problem in report.problems]
    last = report.last_seq or 0
    if last != report.lines:
        tally.faults.append(f"there are {report.lines} lines, and the last one has number {last}")
    if last < session.last_acknowledged:
        tally.lost += session.last_acknowledged - last
        tally.faults.append(f"line {session.last_acknowledged} was acknowledged, the last one there is {last}")
    if len(report.torn) > session.torn + 1:
        tally.faults.append(f"{len(report.torn) - session.torn} lines were torn by one kill")
    session.torn = len(report.torn)


def run(kills: int, seed: int, folder: Path) -> Tally:
    """Kill `kills` writers and return what was counted."""
    chance = random.Random(seed)
    tally = Tally()
    session: Session | None = None
    for number in range(kills):
        if session is None or session.kills == KILLS_PER_SESSION:
            finish(session, tally)
            session = Session(folder / f"session-{number}")
            tally.sessions += 1
        before = session.last_acknowledged
        session.last_acknowledged = kill_once(session, chance.uniform(0, LONGEST), seed + number)
        session.kills += 1
        tally.kills += 1
        tally.acknowledged += session.last_acknowledged - before
        inspect(session, tally)
        if tally.faults:
            print(f"kill {number + 1}: {tally.faults[-1]}", flush=True)
        elif (number + 1) % 50 == 0:
            print(f"{number + 1} kills, {tally.acknowledged:,} lines acknowledged", flush=True)
    finish(session, tally)
    return tally


def finish(session: Session | None, tally: Tally) -> None:
    """Continue a session once more, in peace, and see that the log is whole."""
    from amplifier_kit.log.verify import verify_log
    from amplifier_kit.log.writer import SessionLog

    if session is None:
        return
    with SessionLog(session.folder, verify=True) as log:
        log.write({"event": "kill:end", "data": {}})
        expected = log.seq
    report = verify_log(session.folder)
    if report.last_seq != expected or not report.ok:
        tally.faults.append(f"after the last kill the log ends with {report.last_seq}, not {expected}")
    tally.torn += len(report.torn)
    tally.rotated += len(list(session.folder.glob("events.*.jsonl")))


def main() -> int:
    """Kill, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_until_killed(options.write, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        tally = run(options.kills, options.seed, Path(folder))
    print(f"{tally.kills} kills, {tally.acknowledged:,} lines acknowledged, {len(tally.faults)} faults")
    counted = [
        tally.kills,
        tally.sessions,
        f"{tally.acknowledged:,}",
        tally.lost,
        tally.torn,
        tally.rotated,
        len(tally.faults),
    ]
    header = ["Kills", "Sessions", "Lines acknowledged", "Lost", "Torn and skipped", "Rotations", "Faults"]
    body = f"""
## SIGKILL at random moments of a process that writes a session log

{circumstances()}

{table(header, [[str(number) for number in counted]])}

A process writes small and large lines, growing lists and rotations, acknowledges each line after writing it, and is
killed. After every kill each acknowledged line is read back, the hash chain and every blob are checked, the numbers
have no gaps, and at most the line being written is torn; the next process continues the same log. Seed {options.seed}.
`make bench-kills` counts again (`benchmarks/kills.py --kills N`).
"""
    write_section(options.output, HEADING, "kills", body)
    return 0 if not tally.faults else 1


if __name__ == "__main__":
    sys.exit(main())
