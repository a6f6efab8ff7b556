"""Measure a local model as a coding agent: ten small projects with a failing test, each repaired by one run.

    python benchmarks/local_model.py [--model NAME] [--tasks N] [--home FOLDER] [--json FILE]

A task takes three calls: read the code or the test, edit the code, run the test. Prints what each run did and how long
it took to the first call; the model must be installed (`amplifier provider install local --model NAME`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

AMPLIFIER: Final = Path(sys.executable).parent / "amplifier"
#: What a run may do without a person: read, change the code, run the tests.
POLICY: Final = """\
rules:
  - {verdict: allow, action: filesystem.write, path: "*.py"}
  - {verdict: allow, command: "python3 *"}
  - {verdict: allow, command: "python *"}
"""
_TIME_LIMIT: Final = 600.0


class Task(NamedTuple):
    """A project of two files: code with one mistake, and a test that shows it."""

    name: str
    code: str
    test: str
    prompt: str


def _task(name: str, code: str, test: str, prompt: str) -> Task:
    head = f"import unittest\n\nimport {name}\n\n\nclass Test(unittest.TestCase):\n    def test_{name}(self):\n"
    return Task(name, code, f"{head}        {test}\n", prompt.format(file=f"{name}.py", test=f"test_{name}.py"))


TASKS: Final = (
    _task(
        "pages",
        '"""Show results page by page."""\n\n\ndef count(results, per_page=10):\n    return results // per_page\n',
        "self.assertEqual(pages.count(21), 3)",
        "The test in {test} fails. Read {file}, fix it, and run python3 -m unittest.",
    ),
    _task(
        "clamp",
        "def clamp(value, low, high):\n    return max(high, min(low, value))\n",
        "self.assertEqual(clamp.clamp(5, 0, 10), 5)",
        "python3 -m unittest fails. Find the mistake in {file}, fix it, and run the tests again.",
    ),
    _task(
        "leap",
        "def is_leap(year):\n    return year % 4 == 0\n",
        "self.assertFalse(leap.is_leap(1900))",
        "A test fails here. Find out why, fix the code, and run the tests again with python3 -m unittest.",
    ),
    _task(
        "greet",
        'def greet(name):\n    return "Hello " + name + "!"\n',
        'self.assertEqual(greet.greet("Ada"), "Hello, Ada!")',
        "Make the test in {test} pass by changing {file}. Run it with python3 -m unittest.",
    ),
    _task(
        "median",
        "def median(numbers):\n    return numbers[len(numbers) // 2]\n",
        "self.assertEqual(median.median([9, 1, 5]), 5)",
        "{test} shows a bug in {file}. Repair it and check with python3 -m unittest.",
    ),
    _task(
        "words",
        'def count(text):\n    return len(text.split(" "))\n',
        'self.assertEqual(words.count("two  words"), 2)',
        "Run python3 -m unittest, read {file}, fix the failing test's cause, and run it again.",
    ),
    _task(
        "total",
        "def total(prices, discount):\n    return sum(prices) - discount\n",
        "self.assertEqual(total.total([10], 20), 0)",
        "The total must never be below zero, as {test} says. Fix {file} and run python3 -m unittest.",
    ),
    _task(
        "slug",
        'def slug(title):\n    return title.replace(" ", "-")\n',
        'self.assertEqual(slug.slug("My Page"), "my-page")',
        "Please fix {file} so that python3 -m unittest passes.",
    ),
    _task(
        "last",
        "def last(items, count):\n    return items[:count]\n",
        "self.assertEqual(last.last([1, 2, 3], 2), [2, 3])",
        "Look at {test} and {file}, correct the function, then run python3 -m unittest.",
    ),
    _task(
        "even",
        "def evens(numbers):\n    return [n for n in numbers if n % 2]\n",
        "self.assertEqual(even.evens([1, 2, 3, 4]), [2, 4])",
        "CI is red: python3 -m unittest fails because of {file}. Fix the bug and run the tests.",
    ),
)


class Outcome(NamedTuple):
    """What came of one run."""

    task: str
    passes: bool
    #: Each call with its first words, and whether it succeeded.
    calls: list[str]
    first_call: float | None
    seconds: float
    #: Processor time of the run and everything it started.
    cpu_seconds: float
    tokens_first: int | None
    answer: str


def run(task: Task, model: str, environ: dict[str, str]) -> Outcome:
    """Let the model work on a task, and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="amplifier-local-") as folder:
        project = Path(folder)
        (project / f"{task.name}.py").write_text(task.code, encoding="utf-8")
        (project / f"test_{task.name}.py").write_text(task.test, encoding="utf-8")
        (project / ".amplifier").mkdir()
        (project / ".amplifier" / "policy.yaml").write_text(POLICY, encoding="utf-8")
        options = ["--trust", "--bundle", "default", "--provider", "local", "--model", model, "--max-turns", "12"]
        begun, used = time.monotonic(), _cpu_seconds()
        try:
            done = subprocess.run(
                [AMPLIFIER, "run", *options, task.prompt],
                cwd=project,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIME_LIMIT,
                check=False,
            )
            answer = done.stdout.strip() or done.stderr.strip()[-300:]
        except subprocess.TimeoutExpired:
            answer = f"(stopped after {_TIME_LIMIT:g} s)"
        seconds, cpu_seconds = time.monotonic() - begun, _cpu_seconds() - used
        logs = subprocess.run([AMPLIFIER, "logs", "--json"], cwd=project, env=environ, capture_output=True, text=True)
        # Some models change the test instead of the code.
        (project / f"test_{task.name}.py").write_text(task.test, encoding="utf-8")
        tests = subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=project, capture_output=True, check=False)
        records = [json.loads(line) for line in logs.stdout.splitlines()]
        return Outcome(
            task=task.name,
            passes=tests.returncode == 0,
            calls=_calls(records),
            first_call=_first_call(records),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            tokens_first=_tokens(records),
            answer=answer,
        )


def _calls(records: list[dict[str, Any]]) -> list[str]:
    ends = {"tool:post": "", "tool:error": " failed"}
    found = []
    for record in records:
        if record["event"] in ends:
            data = record["data"]
            given = data.get("tool_input") or {}
            about = given.get("command") or given.get("file_path") or given.get("pattern") or ""
            result = data.get("result") or data.get("tool_result") or {}
            failed = " failed" if isinstance(result, dict) and result.get("success") is False else ends[record["event"]]
            found.append(f"{data.get('tool_name')} {str(about)[:40]}{failed}".strip())
    return found


def _first_call(records: list[dict[str, Any]]) -> float | None:
    """Return the seconds from the prompt to the first call."""
    times = {event: record["ts"] for record in reversed(records) if (event := record["event"])}
    if "prompt:submit" not in times or "tool:pre" not in times:
        return None
    begun, called = (datetime.fromisoformat(times[event]) for event in ("prompt:submit", "tool:pre"))
    return (called - begun).total_seconds()


def _tokens(records: list[dict[str, Any]]) -> int | None:
    used = [record["data"].get("usage") or {} for record in records if record["event"] == "llm:response"]
    return used[0].get("input_tokens") if used else None


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run the tasks and print the rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--tasks", type=int, default=len(TASKS), help="how many of the ten tasks to run")
    parser.add_argument("--home", help="the AMPLIFIER_HOME in which the model is installed")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    given = parser.parse_args()
    environ = {**os.environ, **({"AMPLIFIER_HOME": given.home} if given.home else {})}
    outcomes = []
    for task in TASKS[: given.tasks]:
        outcome = run(task, given.model, environ)
        outcomes.append(outcome)
        first = "no call" if outcome.first_call is None else f"first call after {outcome.first_call:.0f} s"
        passes = "passes" if outcome.passes else "fails "
        took = f"{outcome.seconds:.0f} s in all, {outcome.cpu_seconds:.0f} s of processor time"
        print(f"{task.name:8} {passes} {first}, {took}, {outcome.tokens_first} tokens")
        for call in outcome.calls:
            print(f"           {call}")
        print(f"           -> {' '.join(outcome.answer.split())[:160]}", flush=True)
    times = [outcome.first_call for outcome in outcomes if outcome.first_call is not None]
    print(f"{sum(outcome.passes for outcome in outcomes)} of {len(outcomes)} tests pass afterwards", end="")
    if times:
        print(f"; first call after {statistics.median(times):.0f} s (median), at most {max(times):.0f} s", end="")
    print(f"; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if given.json:
        given.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
