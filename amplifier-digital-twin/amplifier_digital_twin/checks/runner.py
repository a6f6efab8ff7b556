"""Run the checks of a profile, one after the other; each has an outcome, whatever happens in it."""

from __future__ import annotations

import time
from typing import Any

from amplifier_digital_twin.checks.context import CheckContext, Finding
from amplifier_digital_twin.checks.outcome import Outcome
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Check, Profile
from amplifier_digital_twin.recorder import Recorder

#: What was found wrong, in words, and what was seen.
Result = tuple[list[str], dict[str, Any]]


async def run_checks(profile: Profile, context: CheckContext, recorder: Recorder) -> list[Outcome]:
    """Run every check, also after one that failed; what went wrong in a check itself is its reason."""
    outcomes: list[Outcome] = []
    for check in profile.checks:
        recorder.progress(f"check {check.name}")
        outcome = await _run_check(check, context)
        outcomes.append(outcome)
        recorder.event("check", **outcome.record())
        recorder.progress(f"check {check.name}: {'pass' if outcome.is_ok else f'FAIL: {outcome.reason}'}")
        context.evidence.add_json(f"checks/{check.name}.json", outcome.record())
    return outcomes


async def _run_check(check: Check, context: CheckContext) -> Outcome:
    begin = time.monotonic()
    try:
        problems, details = await _do(check, context)
    except TwinError as error:
        problems, details = [str(error)], {"error": error.record()}
    except Exception as error:  # whatever it is, the check has not shown what it should, and the others still run
        problems, details = [f"the check itself failed: {type(error).__name__}: {error}"], {}
    reason, seconds = "; ".join(problems), time.monotonic() - begin
    # Masked here, because an outcome goes to more places than the evidence.
    masked = context.evidence.masked
    return Outcome(check.name, not problems, masked(reason), seconds, masked(details))


async def _do(check: Check, context: CheckContext) -> Result:
    if check.http is not None:
        return await _http(check, context)
    if check.screenshot is not None:
        from amplifier_digital_twin.checks.screenshot import check_screenshot

        return await check_screenshot(check, context)
    if check.provenance is not None:
        return await _provenance(check, context)
    return await _command_and_state(check, context)


async def _command_and_state(check: Check, context: CheckContext) -> Result:
    from amplifier_digital_twin.checks.command import check_command
    from amplifier_digital_twin.checks.files import check_files
    from amplifier_digital_twin.checks.jsonl import check_jsonl

    user = context.user_named(check.user)
    problems, details = await check_command(check, context) if check.run is not None else ([], {})
    problems += await check_files(check.expect.files, context.twin, user)
    faults, seen = await check_jsonl(check.expect.jsonl, context.twin, user)
    problems += faults
    if seen:
        details["jsonl"] = seen
    refused = context.refused_hosts()
    for host in check.expect.refused:
        if host not in refused:
            problems.append(f"the gateway refused nothing to {host!r}: nobody asked for it, or it was let through")
    return problems, details


async def _http(check: Check, context: CheckContext) -> Result:
    from amplifier_digital_twin.checks.http import check_http

    assert check.http is not None
    problem, answer = await check_http(check.http, context.sockets, check.timeout)
    if answer is None:
        return [problem], {}
    context.evidence.add_bytes(f"checks/{check.name}.out", answer.body)
    return [problem] if problem else [], {"status": answer.status, "bytes": len(answer.body), "cut": answer.is_cut}


async def _provenance(check: Check, context: CheckContext) -> Result:
    from amplifier_digital_twin.profile.rules import same_package

    assert check.provenance is not None
    if context.provenance is None:
        return ["nothing in this universe can tell where packages came from"], {}
    findings = await context.provenance(check.provenance)
    problems = [f"{finding.name} {finding.version}: {finding.reason}" for finding in findings if not finding.is_ok]
    if check.provenance == "all":
        if not findings:
            problems.append("no installed package was found")
    else:
        seen = {same_package(finding.name) for finding in findings}
        problems += [f"{name} is not installed" for name in check.provenance if same_package(name) not in seen]
    return problems, {"packages": [_finding(finding) for finding in findings]}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "version": finding.version,
        "location": finding.location,
        "source": finding.source,
        "expected": finding.expected,
        "found": finding.found,
        "ok": finding.is_ok,
        "reason": finding.reason,
    }
