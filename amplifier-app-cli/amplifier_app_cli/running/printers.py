"""Print the result of a run in the format that was asked for: for a person, or for a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from amplifier_app_cli.running.tally import Tally
from amplifier_app_cli.ui.plain import plain_json
from amplifier_app_cli.ui.stream import AnswerStream

Scrub = Callable[[Any], Any]


@dataclass(frozen=True)
class Facts:
    """What is known of a run before its first answer."""

    #: None when the run came to nothing before there was a session.
    session_id: str | None
    bundle: str | None
    model: str | None
    project: str


class Printer(Protocol):
    """Show one run."""

    def connect(self, hooks: Any) -> None:
        """Listen to the session."""
        ...

    def start(self) -> None:
        """Say that the session is there."""
        ...

    def finish(self, answer: str, status: str) -> None:
        """Show the answer of a run that came to an end."""
        ...

    def fail(self, code: str, message: str, exit_code: int, status: str = "error") -> None:
        """Show that there is no answer, and why."""
        ...

    @property
    def failure(self) -> OSError | None:
        """Return why nothing could be written any more, when that was not the reader's choice."""
        ...


def printer_for(name: str, out: TextIO, facts: Facts, tally: Tally, scrub: Scrub) -> Printer:
    """Return the printer of a format."""
    if name == "text":
        return TextPrinter(out)
    if name == "stream-json":
        return StreamPrinter(out, facts, tally, scrub)
    return JsonPrinter(out, facts, tally, scrub, with_trace=name == "json-trace")


class TextPrinter:
    """The answer as it arrives, and nothing else; what went wrong is said on standard error by the caller."""

    def __init__(self, out: TextIO) -> None:
        self._stream = AnswerStream(out)

    def connect(self, hooks: Any) -> None:
        """Listen to the session's streaming events."""
        self._stream.connect(hooks)

    def start(self) -> None:
        """Say nothing: the answer speaks for itself."""

    def finish(self, answer: str, status: str) -> None:
        """Show what was not streamed, and end the line."""
        self._stream.finish(answer)

    def fail(self, code: str, message: str, exit_code: int, status: str = "error") -> None:
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
        text = plain_json(json.dumps(record, ensure_ascii=False, indent=indent, default=str))
        try:
            self._out.write(f"{text}\n")
            self._out.flush()
        except BrokenPipeError:
            self._is_over = True
        except OSError as error:
            self._is_over, self.failure = True, error


class JsonPrinter:
    """One JSON object at the end: the answer, or why there is none."""

    def __init__(self, out: TextIO, facts: Facts, tally: Tally, scrub: Scrub, *, with_trace: bool) -> None:
        self._lines = _JsonLines(out)
        self._facts, self._tally, self._scrub, self._with_trace = facts, tally, scrub, with_trace

    def connect(self, hooks: Any) -> None:
        """Listen to nothing: the tally does."""

    def start(self) -> None:
        """Say nothing before the end."""

    def finish(self, answer: str, status: str) -> None:
        """Print the object."""
        facts = self._facts
        record: dict[str, Any] = {
            "status": status,
            "response": answer,
            "session_id": facts.session_id,
            "bundle": facts.bundle,
            "model": facts.model,
            "timestamp": _now(),
            "usage": self._tally.usage,
            "cost_usd": self._tally.cost,
        }
        self._lines.write({**record, **self._trace()}, indent=2)

    def fail(self, code: str, message: str, exit_code: int, status: str = "error") -> None:
        """Print the object of a run without an answer."""
        record = {
            "status": status,
            "error": message,
            "error_type": code,
            "session_id": self._facts.session_id,
            "timestamp": _now(),
        }
        self._lines.write({**record, **self._trace()}, indent=2)

    def _trace(self) -> dict[str, Any]:
        if not self._with_trace:
            return {}
        counted = {
            "total_tool_calls": len(self._tally.trace),
            "total_agents_invoked": self._tally.agents,
            "duration_ms": self._tally.milliseconds,
        }
        return {"execution_trace": self._scrub(self._tally.trace), "metadata": counted}

    @property
    def failure(self) -> OSError | None:
        """Return why the object could not be printed."""
        return self._lines.failure


class StreamPrinter:
    """One JSON object per line, as it happens: first the session, last the result."""

    _EVENTS = ("tool:pre", "tool:post", "tool:error", "llm:response", "approval:required", "approval:denied")

    def __init__(self, out: TextIO, facts: Facts, tally: Tally, scrub: Scrub) -> None:
        self._lines = _JsonLines(out)
        self._facts, self._tally, self._scrub = facts, tally, scrub

    def connect(self, hooks: Any) -> None:
        """Listen to the pieces of answers and to the events a reader may want to act on."""
        hooks.register("llm:stream_block_delta", self._delta, priority=950, name="app-stream-json")
        for event in self._EVENTS:
            hooks.register(event, self._event, priority=950, name=f"app-stream-json-{event}")

    def start(self) -> None:
        """Print the first record, with the session's id."""
        facts = self._facts
        self._write(
            "session",
            session_id=facts.session_id,
            bundle=facts.bundle,
            model=facts.model,
            working_dir=facts.project,
        )

    def finish(self, answer: str, status: str) -> None:
        """Print the last record."""
        self._result(status, response=answer)

    def fail(self, code: str, message: str, exit_code: int, status: str = "error") -> None:
        """Print the last record of a run without an answer."""
        self._result(status, error=message, error_type=code, exit_code=exit_code)

    def _result(self, status: str, **more: Any) -> None:
        self._write(
            "result",
            status=status,
            session_id=self._facts.session_id,
            usage=self._tally.usage,
            cost_usd=self._tally.cost,
            duration_ms=self._tally.milliseconds,
            **more,
        )

    def _delta(self, event: str, data: dict[str, Any]) -> None:
        kind = data.get("block_type")
        if kind in ("text", "thinking"):
            self._write(kind, session_id=data.get("session_id"), text=data.get("text"))

    def _event(self, event: str, data: dict[str, Any]) -> None:
        facts = {key: value for key, value in data.items() if key not in ("session_id", "timestamp", "parent_id")}
        self._write("event", event=event, session_id=data.get("session_id"), data=self._scrub(facts))

    def _write(self, kind: str, **fields: Any) -> None:
        self._lines.write({"type": kind, "timestamp": _now(), **fields})

    @property
    def failure(self) -> OSError | None:
        """Return why records could not be printed."""
        return self._lines.failure


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
