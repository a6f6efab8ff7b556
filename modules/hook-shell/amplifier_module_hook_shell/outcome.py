"""Say how the run of one hook ended."""

from __future__ import annotations

from typing import Literal

from amplifier_core.named_tuple import NamedTuple
from amplifier_module_hook_shell.answer import Answer

#: ok: it answered. error: it complained, or cannot be run or understood. cancelled: the session was asked to stop.
Status = Literal["ok", "error", "timeout", "cancelled"]
#: What a failure is about: the run of a hook, or the budget that keeps it from asking a model.
Cause = Literal["run", "budget"]


class Outcome(NamedTuple):
    """What came of one hook."""

    status: Status
    #: What it wants; None when it gave no answer that counts.
    answer: Answer | None = None
    error: str = ""
    exit_code: int | None = None
    cause: Cause = "run"
