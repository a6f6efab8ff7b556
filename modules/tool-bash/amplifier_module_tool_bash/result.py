"""Make tool results of the outcomes of commands."""

from __future__ import annotations

from typing import Any

from amplifier_core import ToolResult
from amplifier_kit.guard.processes.output import Shown
from amplifier_kit.guard.processes.running_command import Outcome, signal_name


def failure(code: str, message: str) -> ToolResult:
    """Return the result of a command that was not run."""
    return ToolResult(success=False, output=message, error={"message": message, "code": code})


def finished(outcome: Outcome, stdout: Shown, stderr: Shown, timeout: float, remark: str = "") -> ToolResult:
    """Return the result of a command that was run: output, errors, exit code and notes.

    `remark` is an additional note, such as what the sandbox blocked.
    """
    output: dict[str, Any] = {"stdout": stdout.text, "stderr": stderr.text, "returncode": outcome.returncode}
    if stdout.is_cut or stderr.is_cut:
        output |= {"truncated": True, "stdout_total_bytes": stdout.total, "stderr_total_bytes": stderr.total}
    for name, shown in (("stdout_file", stdout), ("stderr_file", stderr)):
        if shown.path is not None:
            output[name] = str(shown.path)
    code, ending = _ending(outcome, timeout)
    notes = [ending] if code not in ("", "exit_code") else []
    notes += [*_notes(outcome), *([remark] if remark else [])]
    if notes:
        output["message"] = " ".join(notes)
    if not code:
        return ToolResult(success=True, output=output)
    return ToolResult(success=False, output=output, error={"message": ending, "code": code})


def _ending(outcome: Outcome, timeout: float) -> tuple[str, str]:
    """Return an error code and a sentence for a command that failed, else empty texts."""
    number = outcome.returncode
    if outcome.is_timed_out:
        return "timeout", (
            f"Command timed out after {timeout:g} seconds and was stopped, with all it had started. "
            "Give it a longer `timeout`, or use `run_in_background`."
        )
    if number is None:
        return (
            "lost",
            "The command's supervisor was killed, so the command was stopped; how far it came is not known.",
        )
    if number < 0:
        return "signal", f"Command was ended by signal {-number} ({signal_name(-number)})."
    if number:
        return "exit_code", f"Command failed with exit code {number}."
    return "", ""


def _notes(outcome: Outcome) -> list[str]:
    notes = []
    if outcome.leftovers:
        what = "a process" if outcome.leftovers == 1 else f"{outcome.leftovers} processes"
        notes.append(
            f"The command left {what} behind, stopped now; use `run_in_background` for processes that should continue."
        )
    if outcome.alive:
        notes.append(f"Could not be stopped: process {', '.join(map(str, outcome.alive))}.")
    return notes
