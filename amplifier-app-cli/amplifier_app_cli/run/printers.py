"""Print the result of a run in the requested format: text for a person, JSON for a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from amplifier_app_cli.children.ending import BEGUN, CLOSED, SPAWNED
from amplifier_app_cli.ui.records import json_text
from amplifier_app_cli.ui.spending import usage_record
from amplifier_app_cli.ui.stream import AnswerStream

if TYPE_CHECKING:
    from amplifier_app_cli.session_app import Outcome, SessionApp
    from amplifier_app_cli.session_stats import SessionStats
    from amplifier_foundation.sessions.origin import ChildFacts

Scrub = Callable[[Any], Any]


class Printer(Protocol):
    """Prints one run."""

    def start(self, session: SessionApp) -> None:
        """Connect to a session that is about to open."""
        ...

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of a child session, at any depth."""
        ...

    def answer(self, text: str) -> None:
        """Print the answer as soon as it is complete."""
        ...

    def pause(self) -> None:
        """End the open line, because something else is about to be written to the screen."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Print how the run ended; called once, at the end, also if there never was a session."""
        ...

    @property
    def failure(self) -> OSError | None:
        """Return why output could not be written, unless the reader closed it."""
        ...


class Facts(NamedTuple):
    """What is known of a session before its first answer; empty if the run failed before there was one."""

    session_id: str | None = None
    bundle: str | None = None
    provider: str | None = None
    #: None if the provider uses its default model.
    model: str | None = None
    working_dir: str | None = None

    @classmethod
    def of(cls, session: SessionApp) -> Facts:
        runtime = session.runtime
        prepared = runtime.prepared
        return cls(runtime.session_id, prepared.composed.name, runtime.provider, runtime.model, str(prepared.project))


def printer_for(name: str, out: TextIO, stats: SessionStats) -> Printer:
    """Return the printer of a format."""
    if name == "text":
        return TextPrinter(out)
    if name == "stream-json":
        return StreamPrinter(out, stats)
    return JsonPrinter(out, stats, with_trace=name == "json-trace")


class TextPrinter:
    """The answer as it arrives, and nothing else; what went wrong is said on standard error by the caller."""

    def __init__(self, out: TextIO) -> None:
        self._stream = AnswerStream(out)

    def start(self, session: SessionApp) -> None:
        """Listen to the session's streaming events."""
        self._stream.connect(session.coordinator.hooks)

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Show nothing: the answer is the session's own."""

    def answer(self, text: str) -> None:
        """Show what was not streamed, and end the line."""
        self._stream.finish(text)

    def pause(self) -> None:
        """End the line that was begun, on a screen."""
        self._stream.pause()

    def finish(self, outcome: Outcome) -> None:
        """End the line that was begun."""
        self._stream.finish("")

    @property
    def failure(self) -> OSError | None:
        """Return why the answer could not be printed."""
        return self._stream.failure


class _JsonLines:
    """Write JSON to a stream that may go away."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_over = False
        self.failure: OSError | None = None

    def write(self, record: dict[str, Any], indent: int | None = None) -> None:
        """Write one record; a reader that went away ends the writing, not the run."""
        if self._is_over:
            return
        text = json_text(record, indent=indent, encoding=self._out.encoding)
        try:
            self._out.write(f"{text}\n")
            self._out.flush()
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self.failure = error
            self._give_up()

    def _give_up(self) -> None:
        """Write nothing more, and let what is left in the buffer go nowhere."""
        self._is_over = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._out.fileno())
        finally:
            os.close(nowhere)


class JsonPrinter:
    """One JSON object at the end: the answer, or why there is none."""

    def __init__(self, out: TextIO, stats: SessionStats, *, with_trace: bool) -> None:
        self._lines = _JsonLines(out)
        self._stats, self._with_trace = stats, with_trace
        self._facts = Facts()
        self._scrub: Scrub = _as_it_is

    def start(self, session: SessionApp) -> None:
        """Say nothing before the end; the tally listens."""
        self._facts, self._scrub = Facts.of(session), session.scrub

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Say nothing: the tally has what it used."""

    def answer(self, text: str) -> None:
        """Say nothing before the end."""

    def pause(self) -> None:
        """Do nothing: no line is open before the end."""

    def finish(self, outcome: Outcome) -> None:
        """Print the object."""
        facts = self._facts
        record: dict[str, Any] = {
            "status": outcome.status,
            **_of(outcome),
            "session_id": facts.session_id,
            "bundle": facts.bundle,
            "provider": facts.provider,
            "model": facts.model,
            "timestamp": _now(),
            "usage": self._stats.usage,
            "cost_usd": self._stats.cost,
            "exit_code": outcome.exit_code,
        }
        self._lines.write({**record, **self._trace()}, indent=2)

    def _trace(self) -> dict[str, Any]:
        if not self._with_trace:
            return {}
        counted = {
            "total_tool_calls": len(self._stats.trace),
            "total_agents_invoked": self._stats.agents,
            "duration_ms": self._stats.milliseconds,
        }
        return {"execution_trace": self._scrub(self._stats.trace), "metadata": counted}

    @property
    def failure(self) -> OSError | None:
        """Return why the object could not be printed."""
        return self._lines.failure


class StreamPrinter:
    """One JSON object per line, as it happens: first the session, last the result.

    A run that fails before there is a session has a first record too, whose `session_id` is null. The records of
    sessions that this one starts have the same forms, and say besides whose they are: `parent_session_id`, `agent`,
    `depth`, `tool_call_id`. Such a session begins with the event `session:start` or `session:resume` and ends with
    `session:end`, whose data have its usage and cost, those of its own children included.
    """

    _EVENTS = (
        "tool:pre",
        "tool:post",
        "tool:error",
        "llm:response",
        "approval:required",
        "approval:denied",
        "approval:waiting",
        *SPAWNED,
        *CLOSED,
    )
    _CHILD_EVENTS = frozenset((*_EVENTS, *BEGUN, "session:end"))

    def __init__(self, out: TextIO, stats: SessionStats) -> None:
        self._lines = _JsonLines(out)
        self._stats = stats
        self._facts: Facts | None = None
        self._scrub: Scrub = _as_it_is
        self._is_over = False

    def start(self, session: SessionApp) -> None:
        """Print the first record; listen to the pieces of answers and to the events a reader may want to act on."""
        self._scrub = session.scrub
        self._open(Facts.of(session))
        hooks = session.coordinator.hooks
        hooks.register("llm:stream_block_delta", self._delta, priority=950, name="app-stream-json")
        for event in self._EVENTS:
            hooks.register(event, self._event, priority=950, name=f"app-stream-json-{event}")

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Print a record of a child as one of the session's own, with whose it is."""
        whose = {
            "session_id": facts.session_id,
            "parent_session_id": facts.parent_id,
            "agent": facts.agent,
            "depth": facts.depth,
            "tool_call_id": facts.tool_call_id,
        }
        if event == "llm:stream_block_delta":
            if (kind := data.get("block_type")) in ("text", "thinking"):
                self._write(kind, **whose, text=data.get("text"))
            return
        if event in BEGUN:
            self._stats.children.begin(facts)
        elif event == "session:end":
            data = {**data, **usage_record(self._stats.children.end(facts))}
        if event in self._CHILD_EVENTS:
            self._write("event", event=event, **whose, data=self._scrub(_own_facts(data)))

    def answer(self, text: str) -> None:
        """Say nothing: the last record has it."""

    def pause(self) -> None:
        """Do nothing: records are whole lines."""

    def finish(self, outcome: Outcome) -> None:
        """Print the last record."""
        if self._facts is None:
            self._open(Facts())
        assert self._facts is not None
        self._write(
            "result",
            status=outcome.status,
            **_of(outcome),
            session_id=self._facts.session_id,
            usage=self._stats.usage,
            cost_usd=self._stats.cost,
            duration_ms=self._stats.milliseconds,
            exit_code=outcome.exit_code,
        )
        self._is_over = True

    def _open(self, facts: Facts) -> None:
        self._facts = facts
        self._write("session", **facts._asdict())

    def _delta(self, event: str, data: dict[str, Any]) -> None:
        kind = data.get("block_type")
        if kind in ("text", "thinking"):
            self._write(kind, session_id=data.get("session_id"), text=data.get("text"))

    def _event(self, event: str, data: dict[str, Any]) -> None:
        self._write("event", event=event, session_id=data.get("session_id"), data=self._scrub(_own_facts(data)))

    def _write(self, kind: str, **fields: Any) -> None:
        if not self._is_over:
            self._lines.write({"type": kind, "timestamp": _now(), **fields})

    @property
    def failure(self) -> OSError | None:
        """Return why records could not be printed."""
        return self._lines.failure


def _of(outcome: Outcome) -> dict[str, Any]:
    """Return the answer, and what went wrong: what there is of them."""
    fields: dict[str, Any] = {"response": outcome.response, "error": outcome.error, "error_type": outcome.error_type}
    fields["approvals"] = list(outcome.approvals) or None
    fields["spent"] = list(outcome.spent) or None
    return {name: value for name, value in fields.items() if value is not None}


def _own_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event says, without what its record says already."""
    return {key: value for key, value in data.items() if key not in ("session_id", "timestamp", "parent_id")}


def _as_it_is(value: Any) -> Any:
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
