"""What sessions used before: from their metadata, and from their logs for what the metadata do not cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import LLM_RESPONSE
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.engine.usage import UsageRecord, as_cost

if TYPE_CHECKING:
    from amplifier_kit.log.reader import LogLine

#: When counting began in a session that had been used before; only the log has what is older.
SINCE: Final = "since"
#: The key of session metadata with the model of the newest answer, as `provider/model`.
LAST_MODEL: Final = "last_model"


def answering_model(data: Mapping[str, Any], planned: object, module: str | None = None) -> str | None:
    """Return the model of an `llm:response` as `provider/model`; None if the call failed or names no model.

    `planned` is the provider in the plan, and `module` its module if it has an id of its own: its name in the plan is
    used instead of the one under which it answers.
    """
    model, name = data.get("model"), str(data.get("provider") or "")
    if not isinstance(model, str) or not model or data.get("status") == "error":
        return None
    if isinstance(planned, str) and name in (planned, (module or planned).removeprefix("provider-")):
        name = planned
    return f"{name}/{model}" if name else model


def logged_model(folder: Path, planned: object) -> str | None:
    """Return the model of the newest answer in a session's log; None without one, or if the log cannot be read."""
    from amplifier_kit.log.reader import read_log

    found = None
    try:
        for line in read_log(folder, on_torn=lambda torn: None):
            if line.event == LLM_RESPONSE:
                found = answering_model({**line.data, "status": line.get("status")}, planned) or found
    except OSError:
        pass
    return found


def record_of(line: LogLine) -> UsageRecord | None:
    """Return the usage in a line of a session's log; None when it is not an answer to this session.

    A fork has copies of lines of its original; their answers count for the original.
    """
    if line.event != LLM_RESPONSE or line.record.get("parent_session_id") is not None:
        return None
    facts = {"status": line.get("status"), "duration_ms": line.get("duration_ms")}
    return UsageRecord.of_response({"error": line.error, **line.data, **facts})


def logged_answers(folder: Path) -> Iterator[tuple[int | None, UsageRecord]]:
    """Yield time, in milliseconds, and usage of every answer to a session by its log. Raises OSError."""
    from amplifier_kit.log.reader import read_log

    for line in read_log(folder, on_torn=lambda torn: None, only=LLM_RESPONSE.encode()):
        if (used := record_of(line)) is not None:
            yield milliseconds(line.ts), used


def logged_usage(folder: Path, until: str = "") -> UsageRecord:
    """Return what a session used by its log, without its children; with `until`, before that time. Raises OSError."""
    end = milliseconds(until)
    total = UsageRecord()
    for at, used in logged_answers(folder):
        if end is None or at is None or at < end:
            total += used
    return total


def current_facts(folder: Path, metadata: Mapping[str, Any]) -> Any:
    """Return the usage in a session's metadata; while a turn runs or after it was interrupted, that in the log.

    The metadata are written at the end of a turn. A log that cannot be read leaves what they hold.
    """
    if metadata.get("incremental"):
        try:
            return logged_usage(folder).facts() or metadata.get("usage")
        except OSError:
            pass
    return metadata.get("usage")


def facts_at_start(known: Any, now: str, *, was_used: bool) -> dict[str, Any]:
    """Return the usage that a session continues from; a session without counts is counted from now on."""
    facts = UsageRecord.of_facts(known).facts()
    if isinstance(known, Mapping) and isinstance(known.get(SINCE), str):
        return {**facts, SINCE: known[SINCE]}
    return facts or ({SINCE: now} if was_used else {})


def past_cost(known: Any, folder: Path, now: str) -> Decimal | None:
    """Return what a session had cost before `now`; None when no price is known.

    The log is read only for what the metadata do not cover: sessions of other programs have no counts. Costs that a
    fork has copied count for the original. Raises OSError.
    """
    facts = facts_at_start(known, now, was_used=True)
    used = UsageRecord.of_facts(facts)
    if SINCE in facts:
        used += logged_usage(folder, facts[SINCE])
    return used.known_cost if used.priced else None


def total_cost(contributions: Iterable[Any]) -> str | None:
    """Return the sum of what modules contribute on `session.cost`; None when no price is known."""
    prices = [as_cost(one.get("cost_usd")) for one in contributions if isinstance(one, Mapping)]
    known = [price for price in prices if price is not None]
    return str(sum(known, Decimal(0))) if known else None
