"""Run a check's command inside a twin and compare what it did with what was expected."""

from __future__ import annotations

import json
from typing import Any, Final

from amplifier_digital_twin.backends.twin import Finished, Run
from amplifier_digital_twin.checks.comparison import difference
from amplifier_digital_twin.checks.context import CheckContext
from amplifier_digital_twin.profile.model import Check, Expectation

#: How much of each stream is in the outcome; the evidence has all of it.
_TOLD: Final = 2000


async def check_command(check: Check, context: CheckContext) -> tuple[list[str], dict[str, Any]]:
    """Run the command in the user's home, keep what it wrote as evidence, and return what is not as expected."""
    assert check.run is not None
    user = context.user_named(check.user)
    environment = context.environment(user)
    run = Run(["/bin/sh", "-c", check.run], environment, user, user.home, timeout=check.timeout)
    finished = await context.twin.run(run)
    context.evidence.add_bytes(f"checks/{check.name}.out", finished.stdout)
    context.evidence.add_bytes(f"checks/{check.name}.err", finished.stderr)
    details = {
        "exit_code": finished.exit_code,
        "timed_out": finished.is_timed_out,
        "cut": finished.is_cut,
        "stdout": _end(finished.stdout),
        "stderr": _end(finished.stderr),
    }
    return judge(check.expect, finished, check.timeout), details


def judge(expect: Expectation, finished: Finished, timeout: float) -> list[str]:
    """Return what a command did otherwise than expected."""
    if finished.is_timed_out:
        return [f"it was not done after {timeout:g} s and was ended"]
    problems: list[str] = []
    if expect.exit is not None and finished.exit_code != expect.exit:
        problems.append(f"the exit code is {finished.exit_code}, not {expect.exit}{_why(finished)}")
    for name, wanted, got in (("stdout", expect.stdout, finished.stdout), ("stderr", expect.stderr, finished.stderr)):
        if wanted is not None and wanted not in got.decode("utf-8", "replace"):
            cut = " (not all of it was kept)" if finished.is_cut else ""
            problems.append(f"{name} does not contain {wanted!r}{cut}")
    if expect.stdout_json is not None:
        try:
            found = difference(expect.stdout_json, json.loads(finished.stdout), "stdout")
        except (ValueError, RecursionError):
            found = "stdout is no JSON"
        if found:
            problems.append(found)
    return problems


def _why(finished: Finished) -> str:
    """Return the last words of a command that failed, which say more than the code."""
    words = (_end(finished.stderr) or _end(finished.stdout)).rsplit("\n", 1)[-1]
    return f" ({words[:300]})" if finished.exit_code and words else ""


def _end(output: bytes) -> str:
    return output[-_TOLD:].decode("utf-8", "replace").strip()
