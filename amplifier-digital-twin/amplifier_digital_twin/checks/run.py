"""Run the checks of a profile one after the other; each has an outcome, whatever happens in it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_digital_twin.checks.json_part import difference
from amplifier_digital_twin.checks.jsonl import check_jsonl
from amplifier_digital_twin.engines.engine import Finished
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.files import InnerFile, look
from amplifier_digital_twin.profile.model import Check, Expectation, FileExpectation, same_package
from amplifier_digital_twin.readiness import probe_http
from amplifier_digital_twin.universe import Universe

#: How much of each stream is in an outcome; the evidence has all of it.
_SHOWN: Final = 2000
#: What was found wrong, and what was seen.
Result = tuple[list[str], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """One check: whether it passed, why not, how long it took, and what was seen."""

    name: str
    is_ok: bool
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        times = {"seconds": round(self.seconds, 3), "details": self.details}
        return {"name": self.name, "ok": self.is_ok, "reason": self.reason, **times}


def run_checks(universe: Universe, evidence: Evidence) -> list[Outcome]:
    """Run every check, also after one that failed; raise TwinError only when the wall time is over."""
    outcomes: list[Outcome] = []
    universe.restart_wall_time()
    for check in universe.profile.checks:
        universe.time_left()
        universe.log.progress(f"check {check.name}")
        begin = time.monotonic()
        try:
            problems, details = _run(check, universe, evidence)
        except TwinError as error:
            problems, details = [error.message], {"error": error.record()}
        seconds = time.monotonic() - begin
        reason, masked = evidence.masked("; ".join(problems)), evidence.masked(details)
        outcome = Outcome(check.name, not problems, reason, seconds, masked)
        outcomes.append(outcome)
        universe.log.event("check", **outcome.record())
        universe.log.progress(f"check {check.name}: {'pass' if outcome.is_ok else f'FAIL: {reason}'}")
        evidence.add_json(f"checks/{check.name}.json", outcome.record())
    return outcomes


def _run(check: Check, universe: Universe, evidence: Evidence) -> Result:
    seconds = min(check.timeout, universe.time_left())
    if check.http is not None:
        problem, answer = probe_http(universe, check.http, seconds)
        if answer is None:
            return [problem], {}
        evidence.add_bytes(f"checks/{check.name}.out", answer.body)
        return [problem] if problem else [], {"status": answer.status, "bytes": len(answer.body)}
    if check.screenshot is not None:
        from amplifier_digital_twin.checks.screenshot import check_screenshot

        return check_screenshot(check, check.screenshot, universe, evidence, seconds)
    if check.provenance is not None:
        return _provenance(check.provenance, universe)
    return _command(check, universe, evidence, seconds)


def _command(check: Check, universe: Universe, evidence: Evidence, seconds: float) -> Result:
    problems: list[str] = []
    details: dict[str, Any] = {}
    if check.run is not None:
        finished = universe.run(check.run, user=check.user, timeout=seconds)
        evidence.add_bytes(f"checks/{check.name}.out", finished.stdout)
        evidence.add_bytes(f"checks/{check.name}.err", finished.stderr)
        details = {"exit_code": finished.exit_code, "timed_out": finished.is_timed_out}
        details |= {"stdout": _end(finished.stdout), "stderr": _end(finished.stderr)}
        problems = judge_command(check.expect, finished, seconds)
    user = universe.user(check.user)
    for expectation in check.expect.files:
        if problem := judge_files(expectation, look(universe.engine, universe.container, user, expectation.path)):
            problems.append(f"{expectation.path}: {problem}")
    for jsonl in check.expect.jsonl:
        found = look(universe.engine, universe.container, user, jsonl.glob)
        problem, seen = check_jsonl(jsonl, [item for item in found if item.kind == "file"])
        problems += [problem] if problem else []
        details.setdefault("jsonl", []).extend(seen)
    refused = universe.refused_hosts() if check.expect.refused else frozenset()
    for host in check.expect.refused:
        if host not in refused:
            problems.append(f"no request for {host!r} was refused: nothing asked for it, or it was answered")
    return problems, details


def judge_command(expect: Expectation, finished: Finished, timeout: float) -> list[str]:
    """Return in what a command differs from what was expected."""
    if finished.is_timed_out:
        return [f"it was not done after {timeout:g} s and was ended"]
    problems: list[str] = []
    if expect.exit is not None and finished.exit_code != expect.exit:
        words = (_end(finished.stderr) or _end(finished.stdout)).rsplit("\n", 1)[-1][:300]
        why = f" ({words})" if finished.exit_code and words else ""
        problems.append(f"the exit code is {finished.exit_code}, not {expect.exit}{why}")
    for name, wanted, got in (("stdout", expect.stdout, finished.stdout), ("stderr", expect.stderr, finished.stderr)):
        if wanted is not None and wanted not in got.decode("utf-8", "replace"):
            problems.append(f"{name} does not contain {wanted!r}")
    if expect.stdout_json is not None:
        try:
            found = difference(expect.stdout_json, json.loads(finished.stdout), "stdout")
        except (ValueError, RecursionError):
            found = "stdout is not JSON"
        problems += [found] if found else []
    return problems


def judge_files(expectation: FileExpectation, found: Sequence[InnerFile]) -> str:
    """Return in what files differ from what was expected; of several, one that is as expected is enough."""
    if not expectation.exists:
        return f"{found[0].path} exists, and must not" if found else ""
    if not found:
        return "no such file"
    checks = (expectation.contains, expectation.matches, expectation.sha256, expectation.mode)
    if all(part is None for part in checks):
        return ""
    problems = [_judge_file(expectation, item) for item in found]
    return "" if "" in problems else problems[0]


def _judge_file(expectation: FileExpectation, file: InnerFile) -> str:
    if expectation.mode is not None and file.mode & 0o7777 != expectation.mode:
        return f"its permissions are {file.mode & 0o7777:04o}, not {expectation.mode:04o}"
    if expectation.contains is None and expectation.matches is None and expectation.sha256 is None:
        return ""
    if file.kind != "file":
        return f"it is a {file.kind}, not a file"
    text = file.content.decode("utf-8", "replace")
    if expectation.contains is not None and expectation.contains not in text:
        return f"it does not contain {expectation.contains!r}"
    if expectation.matches is not None and re.search(expectation.matches, text, re.MULTILINE) is None:
        return f"nothing in it matches {expectation.matches!r}"
    digest = hashlib.sha256(file.content).hexdigest()
    if expectation.sha256 is not None and digest != expectation.sha256:
        return f"its SHA-256 is {digest}, not {expectation.sha256}"
    return ""


def _provenance(names: Any, universe: Universe) -> Result:
    findings = universe.provenance(names)
    problems = [f"{finding.name} {finding.version}: {finding.reason}" for finding in findings if not finding.is_ok]
    if names == "all" and not findings:
        problems.append("no installed package was found")
    if names != "all":
        seen = {same_package(finding.name) for finding in findings}
        problems += [f"{name} is not installed" for name in names if same_package(name) not in seen]
    return problems, {"packages": [finding.record() for finding in findings]}


def _end(output: bytes) -> str:
    return output[-_SHOWN:].decode("utf-8", "replace").strip()
