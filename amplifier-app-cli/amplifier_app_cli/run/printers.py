"""Print the result of a run in the requested format: text for a person, JSON for a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from amplifier_app_cli.children.endings import CLOSED, SPAWNED, STARTED
from amplifier_app_cli.ui.answer import AnswerFollower
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_text
from amplifier_app_cli.ui.say import before_line
from amplifier_app_cli.ui.spending import usage_record
from amplifier_app_cli.ui.streams import ResultStream
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.session_app import Outcome, SessionApp
    from amplifier_app_cli.session_stats import SessionStats
    from amplifier_foundation.sessions.origin import ChildFacts

Scrub = Callable[[Any], Any]


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


class Printer(ABC):
    """Prints one run; does nothing before the end unless a subclass does."""

    def __init__(self, out: TextIO) -> None:
        self._out = ResultStream(out)

    def start(self, session: SessionApp) -> None:  # noqa: B027
        """Connect to a session that is about to open."""

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:  # noqa: B027
        """Take an event of a child session, at any depth."""

    def answer(self, text: str) -> None:  # noqa: B027
        """Print the answer as soon as it is complete."""

    def pause(self) -> None:  # noqa: B027
        """End the open line, because something else is about to be written to the screen."""

    @abstractmethod
    def finish(self, outcome: Outcome) -> None:
        """Print how the run ended; called once, at the end, also if there never was a session."""

    @property
    def failure(self) -> OSError | None:
        """Return why output could not be written, unless the reader closed it."""
        return self._out.failure


def printer_for(name: str, out: TextIO, stats: SessionStats, *, is_quiet: bool = False) -> Printer:
    """Return the printer of a format; with `is_quiet` text is the final answer alone."""
    if name == "text":
        return FinalAnswerPrinter(out) if is_quiet else TextPrinter(out)
    if name == "stream-json":
        return StreamPrinter(out, stats)
    return JsonPrinter(out, stats, with_trace=name == "json-trace")


class TextPrinter(Printer, AnswerFollower):
    """Prints the answer as it streams in, each block on separate lines, and nothing else."""

    def __init__(self, out: TextIO) -> None:
        Printer.__init__(self, out)
        AnswerFollower.__init__(self)
        self._is_line_open = False

    def start(self, session: SessionApp) -> None:
        self.connect(session.coordinator.hooks)
        before_line.append(self.pause)

    def answer(self, text: str) -> None:
        self.end_turn(text)

    def pause(self) -> None:
        if self._is_line_open and self._out.is_shared():
            self.close()

    def finish(self, outcome: Outcome) -> None:
        self.close()
        if self.pause in before_line:
            before_line.remove(self.pause)

    def show(self, kind: str, text: str) -> None:
        self._is_line_open = not text.endswith("\n")
        self._out.write(text)

    def end_block(self) -> None:
        if self._is_line_open:
            self.show("text", "\n")


class FinalAnswerPrinter(Printer):
    """Prints the final answer, and nothing that the model says on the way to it."""

    def answer(self, text: str) -> None:
        text = plain(text).strip("\n")
        if text:
            self._out.write(f"{text}\n")

    def finish(self, outcome: Outcome) -> None:
        """Print nothing: the answer is printed, or there is none."""


class JsonPrinter(Printer):
    """Prints one JSON object at the end: the answer, or the error."""

    def __init__(self, out: TextIO, stats: SessionStats, *, with_trace: bool) -> None:
        super().__init__(out)
        self._stats, self._with_trace = stats, with_trace
        self._facts = Facts()
        self._scrub: Scrub = _as_it_is

    def start(self, session: SessionApp) -> None:
        self._facts, self._scrub = Facts.of(session), session.scrub

    def finish(self, outcome: Outcome) -> None:
        facts = self._facts
        record: dict[str, Any] = {
            "status": outcome.status,
            **_of(outcome),
            "session_id": facts.session_id,
            "bundle": facts.bundle,
            "provider": facts.provider,
            "model": self._stats.model or facts.model,
            "timestamp": _now(),
            "usage": self._stats.usage,
            "cost_usd": self._stats.cost,
            "exit_code": outcome.exit_code,
        }
        self._out.write(_json({**record, **self._trace()}, self._out, indent=2))

    def _trace(self) -> dict[str, Any]:
        if not self._with_trace:
            return {}
        counted = {
            "total_tool_calls": len(self._stats.trace),
            "total_agents_invoked": self._stats.agents,
            "duration_ms": self._stats.milliseconds,
        }
        return {"execution_trace": self._scrub(self._stats.trace), "metadata": counted}


class StreamPrinter(Printer):
    """Prints one JSON object per line, as things happen: first the session, last the result.

    A run that fails before there is a session has a first record too, whose `session_id` is null. The records of child
    sessions have the same fields and also `parent_session_id`, `agent`, `depth` and `tool_call_id`. A child starts with
    the event `session:start` or `session:resume` and ends with `session:end`, whose data have its usage and cost,
    including its own children.
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
    _CHILD_EVENTS = frozenset((*_EVENTS, *STARTED, "session:end"))

    def __init__(self, out: TextIO, stats: SessionStats) -> None:
        super().__init__(out)
        self._stats = stats
        self._facts: Facts | None = None
        self._scrub: Scrub = _as_it_is
        self._is_over = False

    def start(self, session: SessionApp) -> None:
        self._scrub = session.scrub
        self._open(Facts.of(session))
        hooks = session.coordinator.hooks
        hooks.register("llm:stream_block_delta", self._delta, priority=950, name="app-stream-json")
        for event in self._EVENTS:
            hooks.register(event, self._event, priority=950, name=f"app-stream-json-{event}")

    def child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Print a record of a child session, with the fields that identify it."""
        identity = {
            "session_id": facts.session_id,
            "parent_session_id": facts.parent_id,
            "agent": facts.agent,
            "depth": facts.depth,
            "tool_call_id": facts.tool_call_id,
        }
        if event == "llm:stream_block_delta":
            if (kind := data.get("block_type")) in ("text", "thinking"):
                self._write(kind, **identity, text=data.get("text"))
            return
        if event in STARTED:
            self._stats.children.begin(facts)
        elif event == "session:end":
            data = {**data, **usage_record(self._stats.children.end(facts))}
        if event in self._CHILD_EVENTS:
            self._write("event", event=event, **identity, data=self._scrub(_own_facts(data)))

    def finish(self, outcome: Outcome) -> None:
        if self._facts is None:
            self._open(Facts())
        assert self._facts is not None
        self._write(
            "result",
            status=outcome.status,
            **_of(outcome),
            session_id=self._facts.session_id,
            model=self._stats.model or self._facts.model,
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
            self._out.write(_json({"type": kind, "timestamp": _now(), **fields}, self._out))


def _json(record: dict[str, Any], out: ResultStream, indent: int | None = None) -> str:
    return f"{json_text(record, indent=indent, encoding=out.encoding)}\n"


def _of(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome that have a value."""
    fields: dict[str, Any] = {"response": outcome.response, "error": outcome.error, "error_type": outcome.error_type}
    fields["approvals"] = list(outcome.approvals) or None
    fields["spent"] = list(outcome.spent) or None
    return {name: value for name, value in fields.items() if value is not None}


def _own_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an event without the fields that its record has anyway."""
    return {key: value for key, value in data.items() if key not in ("session_id", "timestamp", "parent_id")}


def _as_it_is(value: Any) -> Any:
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
