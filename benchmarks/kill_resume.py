"""`amplifier run`, killed and resumed: nothing that was on disk is forgotten, and the next turn works.

Each run plays several rounds of tool calls; some sessions are killed again while they are resumed. Then the session is
resumed to the end. Everything that could be seen on disk before a kill (messages of the transcript, the prompt, results
of tools) must be in the conversation that goes on, no finished call may be forgotten, every call must have its one
result, and the next turn must work.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from kill_run import SECONDS, command, fault_of_whole_run, logs_of, start, write_project
from kills import Subject, Tally

ROUNDS = 6
#: How often a session is killed before it is left alone: once, or once more while it is resumed.
AGAIN = 0.3


@dataclass
class Seen:
    """What was on disk while the run was alive: none of it may be lost."""

    #: The lines of the transcript.
    lines: list[bytes] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    #: The calls whose results the log has.
    done: list[str] = field(default_factory=list)


class ResumedRuns(Subject):
    """Runs of the program, in one project, and the sessions that go on after a kill."""

    title: ClassVar = "sessions that are resumed"
    words: ClassVar = (
        f"Each run plays {ROUNDS} rounds of three tool calls and is killed at any moment after its first line of log; "
        "three in ten sessions are killed again while they are resumed. A fault would be: a message, a prompt or the "
        "result of a call that was on disk before the kill and is not in the conversation that goes on, a call without "
        "its one result, a log that does not fit itself, or a next turn that does not work. *From the log* counts "
        "messages that the transcript had not yet when the process died, *made up* what tells the model that a call "
        "was cut off, *too early* runs killed before a prompt was taken.\n`make bench-kills` counts again."
    )
    shown: ClassVar = {
        "resumed": "Sessions resumed",
        "messages": "Messages after",
        "recovered": "From the log",
        "made_up": "Made up",
        "too_early": "Too early",
    }
    at_once: ClassVar = 2

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        write_project(folder, ROUNDS, delay_ms=15)
        for _ in range(2):  # once, so that the bytecode is written
            self._length = kill_once(folder, command("go"), SECONDS)

    def kill(self, chance: random.Random, tally: Tally) -> None:
        """Kill one session, perhaps again while it is resumed, then let it go on."""
        before = logs_of(self._folder)
        kill_once(self._folder, command("go"), chance.uniform(0.0, self._length))
        tally.counts["kills"] += 1
        log = next(iter(logs_of(self._folder) - before), None)
        if log is None or not (log.parent / "record.json").exists():
            tally.counts["too_early"] += 1  # no prompt can have been taken
            if log is not None and look(log.parent).prompts:
                tally.faults.append("a prompt was taken before the session had its record")
            return
        session, kills = log.parent, 1
        seen = look(session)
        if chance.random() < AGAIN:
            kill_once(self._folder, command("more", session.name), chance.uniform(0.0, self._length))
            tally.counts["kills"] += 1
            kills += 1
            later = look(session)
            if later.lines[: len(seen.lines)] != seen.lines:
                tally.faults.append("messages that were seen are gone after the second kill")
            seen = later
        tally.counts["resumed"] += 1
        resume(self._folder, session, seen, kills, tally)


def kill_once(folder: Path, arguments: list[str], delay: float) -> float:
    """Start a run and kill it `delay` seconds after it began to log; return how long it was alive then."""
    before = sizes(folder)
    process = start(folder, arguments)
    # Starting takes a time that depends on what else the machine does; what is of interest comes afterwards.
    while sizes(folder) == before and process.poll() is None:
        time.sleep(0.002)
    started = time.monotonic()
    while time.monotonic() < started + delay and process.poll() is None:
        time.sleep(min(0.002, delay))
    alive = time.monotonic() - started
    process.kill()
    process.wait(SECONDS)
    return alive


def sizes(folder: Path) -> dict[Path, int]:
    """Return how long the logs of all sessions are."""
    return {log: log.stat().st_size for log in logs_of(folder)}


def look(session: Path) -> Seen:
    """Return what is on disk of a session whose process is gone."""
    from amplifier_kit.log.reader import read_log

    seen = Seen()
    try:
        content = (session / "transcript.jsonl").read_bytes()
    except FileNotFoundError:
        content = b""
    seen.lines = content.split(b"\n")[:-1]
    for line in read_log(session, lambda torn: None):
        if line.event == "prompt:submit":
            seen.prompts.append(str(line.resolved().get("prompt")))
        elif line.event == "tool:post":
            seen.done.append(str(line.data.get("tool_call_id")))
    return seen


def check(messages: list[dict[str, Any]], seen: Seen, tally: Tally, when: str) -> None:
    """Note everything that was seen and is not in the conversation, and every call that is not paired."""
    from amplifier_kit.engine.pairing import check_pairing

    tally.faults += [f"{when}: {violation}" for violation in check_pairing(messages)]
    kept = [json.loads(line) for line in seen.lines]
    if messages[: len(kept)] != kept:
        tally.faults.append(f"{when}: {len(kept)} messages were seen, and the conversation does not begin with them")
    said = [message["content"] for message in messages if message["role"] == "user"]
    missing = [prompt for prompt in seen.prompts if prompt not in said]
    if missing:
        tally.faults.append(f"{when}: prompts are forgotten: {missing}")
    results = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    for call in seen.done:
        content = results.get(call, {}).get("content", "")
        if "page" not in str(content):
            tally.faults.append(f"{when}: call {call} was done, and its result is {content!r}")


def resume(folder: Path, session: Path, seen: Seen, kills: int, tally: Tally) -> None:
    """Load a killed session, run its next turn, and note what does not hold."""
    from amplifier_foundation.sessions.resume import load_session
    from amplifier_foundation.sessions.transcript import load_history
    from amplifier_kit.log.verify import verify_log

    before = {path.name: path.read_bytes() for path in session.iterdir() if path.is_file()}
    loaded = load_session(session)
    if {path.name: path.read_bytes() for path in session.iterdir() if path.is_file()} != before:
        tally.faults.append("loading a session changed it")
    check(loaded.messages, seen, tally, "loaded")
    marks = [message.get("metadata") or {} for message in loaded.messages]
    tally.counts["recovered"] += sum(bool(mark.get("recovered_from_log")) for mark in marks)
    tally.counts["made_up"] += sum(bool(mark.get("synthetic")) for mark in marks)
    if fault := fault_of_whole_run(folder, command("and now?", session.name)):
        tally.faults.append(fault)
        return
    after = load_history(session)
    tally.counts["messages"] += len(after.messages)
    check(after.messages, look(session), tally, "after the next turn")
    check(after.messages, seen, tally, "after the next turn")
    if after.problems or after.messages[-1]["role"] != "assistant" or b"All done." not in after.lines[-1]:
        tally.faults.append(f"the conversation does not end with the answer: {after.problems}")
    report = verify_log(session)
    if not report.ok or len(report.torn) > kills:
        tally.faults.append(f"the log does not fit itself: {report.problems[:3]}, {len(report.torn)} torn lines")
