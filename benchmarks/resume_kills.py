"""Kill `amplifier run` at random moments, resume each session, and write a section of docs/reliability.md.

    python benchmarks/resume_kills.py [--kills 500] [--seed 1] [--no-document] [--output FILE]

Each run plays several rounds of tool calls and is killed with SIGKILL at a moment that chance picks; some sessions are
killed again while they are resumed. Then the session is resumed to the end. Everything that could be seen on disk
before a kill (messages of the transcript, the prompt, results of tools) must be in the conversation that goes on, no
finished call may be forgotten, every call must have its one result, and the next turn must work. Exits 1 when any of
this does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from document import ROOT, circumstances, table, write_section
from exits import HEADING
from run_kills import SECONDS, environment_of, logs_of, write_project

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


@dataclass
class Found:
    """What became of one killed session."""

    kills: int = 0
    #: Killed before there was anything to resume.
    too_early: bool = False
    messages: int = 0
    recovered: int = 0
    made_up: int = 0
    violations: list[str] = field(default_factory=list)


def prepare(folder: Path) -> None:
    """Make a project with a bundle, a tool with large results, and a scenario of some rounds."""
    write_project(folder)
    turns = [
        {
            "text": f"Step {number}.",
            "delay_ms": 15,
            "tool_calls": [
                {"id": f"c{number}_{index}", "name": "pages", "arguments": {"number": 10 * number + index}}
                for index in range(3)
            ],
        }
        for number in range(ROUNDS)
    ]
    # JSON is YAML too, and is written without a library.
    (folder / "scenario.yaml").write_text(json.dumps({"turns": [*turns, {"text": "All done."}]}), encoding="utf-8")


def command(prompt: str, session: str | None = None) -> list[str]:
    """Return the command line of a run: of a new session, or of one that goes on."""
    which = ["--bundle", "bundle.yaml"] if session is None else ["--resume", session]
    return [sys.executable, "-m", "amplifier_app_cli", "run", "--quiet", *which, prompt]


def kill_once(folder: Path, arguments: list[str], delay: float) -> float:
    """Start a run and kill it `delay` seconds after it began to log; return how long it was alive then."""
    before = sizes(folder)
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(
            arguments, cwd=folder, env=environment_of(folder), stdin=subprocess.DEVNULL, stdout=nowhere, stderr=nowhere
        )
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


def check(messages: list[dict[str, Any]], seen: Seen, found: Found, when: str) -> None:
    """Note everything that was seen and is not in the conversation, and every call that is not paired."""
    from amplifier_kit.engine.pairing import check_pairing

    found.violations += [f"{when}: {violation}" for violation in check_pairing(messages)]
    kept = [json.loads(line) for line in seen.lines]
    if messages[: len(kept)] != kept:
        found.violations.append(
            f"{when}: {len(kept)} messages were seen, and the conversation does not begin with them"
        )
    said = [message["content"] for message in messages if message["role"] == "user"]
    missing = [prompt for prompt in seen.prompts if prompt not in said]
    if missing:
        found.violations.append(f"{when}: prompts are forgotten: {missing}")
    results = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    for call in seen.done:
        content = results.get(call, {}).get("content", "")
        if "page" not in str(content):
            found.violations.append(f"{when}: call {call} was done, and its result is {content!r}")


def resume(folder: Path, session: Path, seen: Seen, found: Found) -> None:
    """Load a killed session, run its next turn, and note what does not hold."""
    from amplifier_foundation.sessions.resume import load_session
    from amplifier_foundation.sessions.transcript import load_history
    from amplifier_kit.log.verify import verify_log

    before = {path.name: path.read_bytes() for path in session.iterdir() if path.is_file()}
    loaded = load_session(session)
    if {path.name: path.read_bytes() for path in session.iterdir() if path.is_file()} != before:
        found.violations.append("loading a session changed it")
    check(loaded.messages, seen, found, "loaded")
    marks = [message.get("metadata") or {} for message in loaded.messages]
    found.recovered = sum(bool(mark.get("recovered_from_log")) for mark in marks)
    found.made_up = sum(bool(mark.get("synthetic")) for mark in marks)
    done = subprocess.run(
        command("and now?", session.name),
        cwd=folder,
        env=environment_of(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not done.stdout.endswith("All done.\n"):
        found.violations.append(
            f"the next turn: status {done.returncode}, {done.stdout[-100:]!r}, {done.stderr[-300:]!r}"
        )
        return
    after = load_history(session)
    found.messages = len(after.messages)
    check(after.messages, look(session), found, "after the next turn")
    check(after.messages, seen, found, "after the next turn")
    if after.problems or after.messages[-1]["role"] != "assistant" or b"All done." not in after.lines[-1]:
        found.violations.append(f"the conversation does not end with the answer: {after.problems}")
    report = verify_log(session)
    if not report.ok or len(report.torn) > found.kills:
        found.violations.append(f"the log does not fit itself: {report.problems[:3]}, {len(report.torn)} torn lines")


def kill_and_resume(folder: Path, chance: random.Random, length: float) -> Found:
    """Kill one session, perhaps again while it is resumed, then let it go on."""
    found = Found()
    before = logs_of(folder)
    kill_once(folder, command("go"), chance.uniform(0.0, length))
    found.kills = 1
    log = next(iter(logs_of(folder) - before), None)
    if log is None or not (log.parent / "record.json").exists():
        found.too_early = True  # no prompt can have been taken
        if log is not None and look(log.parent).prompts:
            found.violations.append("a prompt was taken before the session had its record")
        return found
    session = log.parent
    seen = look(session)
    if chance.random() < AGAIN:
        kill_once(folder, command("more", session.name), chance.uniform(0.0, length))
        found.kills += 1
        later = look(session)
        if later.lines[: len(seen.lines)] != seen.lines:
            found.violations.append("messages that were seen are gone after the second kill")
        seen = later
    resume(folder, session, seen, found)
    return found


def kill_many(kills: int, seed: int) -> list[Found]:
    """Kill sessions in one project until there were `kills` kills."""
    chance = random.Random(seed)
    all_found: list[Found] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for _ in range(2):  # once, so that the bytecode is written
            length = kill_once(folder, command("go"), SECONDS)
        while sum(found.kills for found in all_found) < kills:
            all_found.append(kill_and_resume(folder, chance, length))
    return all_found


def describe(all_found: list[Found]) -> str:
    """Return the table of what was counted."""
    header = ["Kills", "Sessions resumed", "Messages after", "From the log", "Made up", "Too early", "Violations"]
    row = [
        str(sum(found.kills for found in all_found)),
        str(sum(not found.too_early for found in all_found)),
        f"{sum(found.messages for found in all_found):,}",
        str(sum(found.recovered for found in all_found)),
        str(sum(found.made_up for found in all_found)),
        str(sum(found.too_early for found in all_found)),
        str(sum(bool(found.violations) for found in all_found)),
    ]
    return table(header, [row])


def main() -> int:
    """Kill, resume, count, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-document", action="store_true", help="print only")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options = parser.parse_args()
    halves = [options.kills - options.kills // 2, options.kills // 2]
    with ThreadPoolExecutor(len(halves)) as pool:
        parts = pool.map(kill_many, halves, [options.seed, options.seed + 1])
        all_found = [found for part in parts for found in part]
    rendered = describe(all_found)
    violations = [violation for found in all_found for violation in found.violations]
    print("\n".join([rendered, *violations]))
    if not options.no_document:
        body = (
            f"## Sessions, resumed after a kill at a random moment\n\n{circumstances()}\n\n{rendered}\n\n"
            f"Each run plays {ROUNDS} rounds of three tool calls and is killed with SIGKILL at "
            "any moment after its first line of log; three in ten sessions are "
            "killed again while they are resumed. A violation would be: a message, a prompt or the result of a call "
            "that was on disk before the kill and is not in the conversation that goes on, a call without its one "
            "result, a log that does not fit itself, or a next turn that does not work. *From the log* counts messages "
            "that the transcript had not yet when the process died, *made up* what tells the model that a call was "
            "cut off, *too early* runs killed before a prompt was taken.\n"
            "`python benchmarks/resume_kills.py` counts again."
        )
        write_section(options.output, HEADING, "resume-kills", body)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
