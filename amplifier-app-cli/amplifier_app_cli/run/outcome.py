"""What came of a run, and what is known of it from the start."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_app_cli import exits


class Facts(NamedTuple):
    """What is known of a run before its first answer; nothing of one that failed before there was a session."""

    session_id: str | None = None
    bundle: str | None = None
    provider: str | None = None
    #: None when nobody named one: the provider has a default of its own.
    model: str | None = None
    project: str | None = None


class Outcome(NamedTuple):
    """How a run ended."""

    status: str
    exit_code: int
    #: None when there is no answer.
    response: str | None = None
    #: What went wrong, and its stable code.
    error: str | None = None
    error_type: str | None = None
    #: The calls that wait for somebody to allow them.
    approvals: tuple[dict[str, Any], ...] = ()
    #: Who has used how much, when a limit was reached.
    spent: tuple[dict[str, Any], ...] = ()

    @classmethod
    def failed(cls, code: str, message: str, exit_code: int) -> Outcome:
        """Return the end of a run that something went wrong with."""
        return cls("error", exit_code, error=message, error_type=code)

    @classmethod
    def stopped(cls, exit_code: int | None, response: str | None = None) -> Outcome:
        """Return the end of a run that was stopped: by a signal, which has its exit code, or by a module."""
        code = exit_code or exits.FAILURE
        return cls("cancelled", code, response=response, error="the run was stopped", error_type="cancelled")
