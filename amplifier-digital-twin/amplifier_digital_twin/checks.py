"""From a launched universe to a verdict: every check has an outcome, whatever happens in it, and evidence."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin import __version__
from amplifier_digital_twin.engines.engine import Finished, end_of
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.files import InnerFile
from amplifier_digital_twin.profile.model import Check, Expectation, FileExpectation, JsonlExpectation
from amplifier_digital_twin.readiness import probe_http
from amplifier_digital_twin.screenshot import check_screenshot
from amplifier_digital_twin.universe import Universe

#: A hostile log can hold any number of different values, and of broken lines: only so many are reported.
_SHOWN: Final = 200
#: Asked inside; a program that is missing prints nothing.
_VERSIONS: Final = (
    "python3 --version; git --version; uv --version; amplifier --version; "
    "sed -n 's/^PRETTY_NAME=//p' /etc/os-release; uname -sr"
)
#: What was found wrong, and what was seen.
Result = tuple[list[str], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """One check: whether it passed, why not, how long it took, and what was seen."""

    name: str
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether it passed."""
        return not self.reason

    def record(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        times = {"seconds": round(self.seconds, 3), "details": self.details}
        return {"name": self.name, "ok": self.is_ok, "reason": self.reason, **times}


def check_universe(universe: Universe, folder: Path) -> dict[str, Any]:
    """Run the profile's checks in a launched universe and write the evidence; return the verdict.

    Raises TwinError (`evidence_unwritable`) when the evidence cannot be kept: a verdict without it proves nothing.
    """
    log, profile = universe.log, universe.profile
    try:
        evidence = Evidence(folder, universe.log.secrets)
        with log.timed("checks"):
            outcomes = run_checks(universe, evidence)
        log.progress("collecting evidence")
        with log.timed("evidence"):
            evidence.collect(universe.place, profile.artifacts)
            inside = universe.run(_VERSIONS, timeout=60).stdout.decode("utf-8", "replace").splitlines()
        host = {"python": platform.python_version(), "system": platform.platform()}
        evidence.add_json("versions.json", {"amplifier-digital-twin": __version__, "host": host, "inside": inside})
        evidence.add_json("status.json", universe.status())
        _add_logs(universe, evidence)
        verdict = evidence.write_verdict(outcomes, profile=profile.name, timings=dict(log.timings))
        return {**verdict, "evidence": str(folder)}
    except OSError as error:
        said = f"{folder}: the evidence cannot be written: {error}"
        raise TwinError("evidence_unwritable", said, "name another directory with --evidence") from error


def keep_failure(universe: Universe, folder: Path, error: TwinError) -> None:
    """Keep what is known of a launch that failed, before everything is destroyed."""
    try:
        evidence = Evidence(folder, universe.log.secrets)
        evidence.add_json("error.json", error.record())
        _add_logs(universe, evidence)
    except OSError as fault:
        # Why the launch failed matters more than why that cannot be written down.
        universe.log.progress(f"note: no evidence is kept: {fault}")


def _add_logs(universe: Universe, evidence: Evidence) -> None:
    evidence.add_json("timings.json", dict(universe.log.timings))
    evidence.add_file("log.jsonl", universe.folder.log)
    evidence.add_file("decisions.jsonl", universe.folder.requests)
    evidence.add_file("services.log", universe.folder.services_log)


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
        outcome = Outcome(
            check.name, evidence.secrets.masked("; ".join(problems)), seconds, evidence.secrets.masked(details)
        )
        outcomes.append(outcome)
        universe.log.event("check", **outcome.record())
        universe.log.progress(f"check {check.name}: {'pass' if outcome.is_ok else f'FAIL: {outcome.reason}'}")
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
        return check_screenshot(check.name, check.screenshot, universe, evidence, seconds)
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
        details |= {"stdout": end_of(finished.stdout), "stderr": end_of(finished.stderr)}
        problems = judge_command(check.expect, finished, seconds)
    place = universe.place._replace(user=universe.user(check.user))
    for expectation in check.expect.files:
        if problem := judge_files(expectation, list(place.files(expectation.path))):
            problems.append(f"{expectation.path}: {problem}")
    for jsonl in check.expect.jsonl:
        found = [file for file in place.files(jsonl.glob) if file.kind == "file"]
        problem, seen = judge_logs(jsonl, found)
        problems += [problem] if problem else []
        details.setdefault("jsonl", []).extend(seen)
    refused = universe.refused_hosts() if check.expect.refused else frozenset()
    for host in check.expect.refused:
        if host not in refused:
            problems.append(f"no request for {host!r} was refused: nothing asked for it, or it was answered")
    return problems, details


def _provenance(names: Any, universe: Universe) -> Result:
    findings = universe.provenance(names)
    problems = [f"{finding.name} {finding.version}: {finding.reason}" for finding in findings if not finding.is_ok]
    if names == "all" and not findings:
        problems.append("no installed package was found")
    return problems, {"packages": [finding.record() for finding in findings]}


def judge_command(expect: Expectation, finished: Finished, timeout: float) -> list[str]:
    """Return in what a command differs from what was expected."""
    if finished.is_timed_out:
        return [f"it was not done after {timeout:g} s and was ended"]
    problems: list[str] = []
    if expect.exit is not None and finished.exit_code != expect.exit:
        words = (end_of(finished.stderr) or end_of(finished.stdout)).rsplit("\n", 1)[-1][:300]
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
    problems = [_judge_file(expectation, item) for item in found] or ["no such file"]
    return "" if "" in problems else problems[0]


def _judge_file(expectation: FileExpectation, file: InnerFile) -> str:
    if expectation.mode is not None and file.mode & 0o7777 != expectation.mode:
        return f"its permissions are {file.mode & 0o7777:04o}, not {expectation.mode:04o}"
    if expectation.contains is None and expectation.matches is None and expectation.sha256 is None:
        return ""
    if file.kind != "file":
        return f"it is a {file.kind}, not a file"
    text, digest = file.content.decode("utf-8", "replace"), hashlib.sha256(file.content).hexdigest()
    if expectation.contains is not None and expectation.contains not in text:
        return f"it does not contain {expectation.contains!r}"
    if expectation.matches is not None and re.search(expectation.matches, text, re.MULTILINE) is None:
        return f"nothing in it matches {expectation.matches!r}"
    if expectation.sha256 is not None and digest != expectation.sha256:
        return f"its SHA-256 is {digest}, not {expectation.sha256}"
    return ""


# -- logs in JSONL --


def judge_logs(expectation: JsonlExpectation, files: Iterable[InnerFile]) -> tuple[str, list[dict[str, Any]]]:
    """Return in what files differ from what was expected (empty when they do not), and what was seen in each."""
    seen = [_judge_log(expectation, file) for file in files]
    faulty = [each for each in seen if each["problems"]]
    if not seen:
        return f"{expectation.glob}: no such file", []
    if not faulty or (expectation.files == "any" and len(faulty) < len(seen)):
        return "", seen
    more = f" (and {len(faulty) - 1} more files)" if len(faulty) > 1 else ""
    return f"{faulty[0]['path']}: {'; '.join(faulty[0]['problems'])}{more}", seen


def _judge_log(expectation: JsonlExpectation, file: InnerFile) -> dict[str, Any]:
    key, problems = expectation.key, []
    values: list[Any] = []
    lines: list[str] = []
    for number, raw in enumerate(file.content.split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8")
            values += [json.loads(line).get(key)] if line.strip() else []
            lines.append(line)
        except (ValueError, RecursionError, AttributeError):
            problems.append(f"line {number} is not JSON, or no object")
    for value in expectation.has:
        # Space after the colon included: other tools search for this text.
        written = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        if value not in values:
            problems.append(f"no line has {key} {value!r}")
        elif not any(written in line for line in lines):
            problems.append(f"no line has {written!r}, as `grep` finds it")
    rest = iter(values)
    late = next((value for value in expectation.has if value not in rest), None)
    if expectation.in_order and not problems and late is not None:
        problems.append(f"{late!r} is out of order: {', '.join(expectation.has)}")
    problems += [f"a line has {key} {value!r}, and must not" for value in expectation.lacks if value in values]
    counts: dict[str, int] = {}
    for value in values:
        counts[str(value)[:200]] = counts.get(str(value)[:200], 0) + 1
    shown = dict(list(counts.items())[:_SHOWN])
    return {"path": file.path, "lines": len(values), "values": shown, "problems": problems[:_SHOWN]}


# -- parts of JSON --


def difference(expected: Any, actual: Any, place: str = "") -> str:
    """Return where `actual` lacks something of `expected`; empty when it has all.

    Of a mapping only the expected keys count; a list has the expected items in order, at any distance. Numbers equal
    by value, and true is not 1.
    """
    here = place or "the answer"
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{here} is {_show(actual)}, not a mapping"
        for key, value in expected.items():
            found = (
                difference(value, actual[key], f"{place}.{key}".lstrip("."))
                if key in actual
                else f"{here} has no {key!r}"
            )
            if found:
                return found
        return ""
    if isinstance(expected, list):
        if not isinstance(actual, list):
            return f"{here} is {_show(actual)}, not a list"
        rest = iter(actual)
        for item in expected:
            if not any(difference(item, candidate) == "" for candidate in rest):
                return f"{here} has no {_show(item)} (in this order)"
        return "" if expected or not actual else f"{here} is {_show(actual)}, not an empty list"
    is_same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return "" if is_same else f"{here} is {_show(actual)}, not {_show(expected)}"


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:200]
