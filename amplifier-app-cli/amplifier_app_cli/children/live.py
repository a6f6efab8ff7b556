"""Follow the child sessions of a running session: what each is doing, what it used, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_app_cli.children.endings import (
    CLOSED,
    STARTED,
    Ending,
    child_of,
    combine_endings,
    own_ending,
    reported_ending,
)
from amplifier_app_cli.ui.layout import summarize_input
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.struct import Struct

if TYPE_CHECKING:
    from amplifier_foundation.sessions.origin import ChildFacts


class ChildUsage:
    """What each running child used, with all its descendants."""

    def __init__(self) -> None:
        self._sums: dict[str, UsageRecord] = {}
        self._parents: dict[str, str] = {}

    def begin(self, facts: ChildFacts) -> None:
        """Record the parent of a child, before it or its children use anything."""
        self._parents[facts.session_id] = facts.parent_id

    def add(self, session_id: str, used: UsageRecord) -> None:
        """Add what a session used to it and its ancestors; a listener of `UsageAccount`."""
        at: str | None = session_id
        while at in self._parents:
            self._sums[at] = self._sums.get(at, UsageRecord()) + used
            at = self._parents.get(at)

    def end(self, facts: ChildFacts) -> UsageRecord:
        """Return what a child used that ended, and forget it."""
        self._parents.pop(facts.session_id, None)
        return self._sums.pop(facts.session_id, UsageRecord())


#: What a child is doing while it runs no tool, by event.
_DOING: Final = {
    "session:start": "starts",
    "session:resume": "continues",
    "provider:request": "waits for the model",
    "llm:request": "waits for the model",
    "provider:retry": "waits to ask the model again",
    "provider:throttle": "waits to ask the model again",
    "llm:stream_block_delta": "writes",
    "approval:required": "waits for your answer",
    "approval:granted": "continues",
    "approval:denied": "continues",
    "context:pre_compact": "makes its context smaller",
    "llm:response": "has an answer",
    "orchestrator:complete": "ends",
}
#: Characters that are kept of a tool input.
_MOST_KEPT: Final = 200


class LiveChild(Struct):
    """One running child."""

    facts: ChildFacts
    #: Its agent, with a number if it is not the first one.
    name: str
    since: float
    state: str = "starts"
    #: The running calls by id: the tool, and a summary of its input.
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: The calls that ended, a line for each: whether it worked, the tool, and a summary of its input.
    ended_calls: list[str] = field(default_factory=list)
    #: What it and its descendants used.
    usage: UsageRecord = field(default_factory=UsageRecord)
    is_begun: bool = False
    own_end: Ending | None = None
    reported_end: Ending | None = None
    #: Whether the call that spawned it has ended: if it was stopped, before the child ends.
    is_call_over: bool = False

    @property
    def doing(self) -> str:
        """Return what it is doing now."""
        if self.own_end is not None:
            return self.own_end.word
        if not self.calls:
            return self.state
        tool, about = list(self.calls.values())[-1]
        more = f" (and {len(self.calls) - 1} more)" if len(self.calls) > 1 else ""
        waits = f"{self.state}: " if self.state == _DOING["approval:required"] else ""
        return f"{waits}{tool}{more} {about}".rstrip()

    @property
    def ending(self) -> Ending:
        """Return how it ended, as far as reported."""
        return combine_endings(self.own_end, self.reported_end, is_begun=self.is_begun)


class Watcher(Protocol):
    """Listens to a `LiveTree`."""

    def on_start(self, child: LiveChild) -> None:
        """A child started or resumed."""
        ...

    def on_change(self, child: LiveChild, event: str) -> None:
        """A child does something else."""
        ...

    def on_end(self, child: LiveChild) -> None:
        """A child ended."""
        ...

    def on_rejection(self, asker: LiveChild, agent: str, ending: Ending) -> None:
        """A child could not spawn an agent, so no session will report an ending."""
        ...


class LiveTree:
    """The running children. Their events arrive by `take`, those of the session itself by `connect`.

    A child has ended when the call that spawned it says so: only that call knows of a timeout, for example.
    """

    def __init__(self, scrub: Callable[[Any], Any] = lambda value: value) -> None:
        """Mask secrets in inputs with `scrub`."""
        self.scrub = scrub
        self.watchers: list[Watcher] = []
        self._open: dict[str, LiveChild] = {}
        self._named: dict[str, int] = {}
        #: Children that ended: later events do not start them again, except `session:resume`.
        self._over: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to the top session, for its reports on its children."""
        for event in (*CLOSED, "tool:post", "tool:error"):
            hooks.register(event, self._on_top, priority=960, name=f"app-children-{event}")

    def take(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take one event of a child, at any depth."""
        if event == "session:resume":
            self._over.discard(facts.session_id)
        if facts.session_id in self._over:
            return
        child = self._open.get(facts.session_id) or self._begin(facts)
        self._follow(child, event, data)
        self._note_report(facts.session_id, event, data)

    def count(self, session_id: str, used: UsageRecord) -> None:
        """Add what a session used to its child and to those above it; listens to a `UsageAccount`."""
        child = self._open.get(session_id)
        while child is not None:
            child.usage += used
            child = self._open.get(child.facts.parent_id)

    def running(self) -> list[LiveChild]:
        """Return the running children, each before its own children."""
        below: dict[str | None, list[LiveChild]] = {}
        for child in self._open.values():
            parent = child.facts.parent_id if child.facts.parent_id in self._open else None
            below.setdefault(parent, []).append(child)
        order: list[LiveChild] = []
        todo = below.get(None, [])[::-1]
        while todo:
            child = todo.pop()
            order.append(child)
            todo += below.pop(child.facts.session_id, [])[::-1]
        return order

    def clear(self, *, was_stopped: bool = False) -> None:
        """End all children: the turn is over, and those without an ending have none, or were stopped with it."""
        for child in self.running()[::-1]:
            if was_stopped and child.reported_end is None:
                child.reported_end = Ending("cancelled")
            self._close(child)
        self._named.clear()

    # -- events --

    def _on_top(self, event: str, data: dict[str, Any]) -> None:
        self._note_report(None, event, data)

    def _begin(self, facts: ChildFacts) -> LiveChild:
        number = self._named[facts.agent] = self._named.get(facts.agent, 0) + 1
        name = facts.agent if number == 1 else f"{facts.agent} {number}"
        child = self._open[facts.session_id] = LiveChild(facts, name, time.monotonic())
        for watcher in self.watchers:
            watcher.on_start(child)
        return child

    def _follow(self, child: LiveChild, event: str, data: Mapping[str, Any]) -> None:
        if event == "tool:pre":
            about = summarize_input(self.scrub(data.get("tool_input")), _MOST_KEPT)
            child.calls[_key(data)] = (str(data.get("tool_name")), about)
        elif event in ("tool:post", "tool:error"):
            tool, about = child.calls.pop(_key(data), (str(data.get("tool_name")), ""))
            child.ended_calls.append(f"{'✔' if _worked(event, data) else '✘'} {tool} {about}".rstrip())
            child.state = "continues"
        elif event == "session:end":
            child.own_end, child.calls = own_ending(data), {}
            if child.facts.tool_call_id is None or child.is_call_over:  # no more reports will come
                self._close(child)
                return
        elif event in STARTED:
            child.is_begun = True
        if event in _DOING:
            child.state = _DOING[event]
        if event == "provider:retry" and (reason := data.get("error_type")):
            child.state += f": {reason}"
        for watcher in self.watchers:
            watcher.on_change(child, event)

    def _note_report(self, reporter: str | None, event: str, data: Mapping[str, Any]) -> None:
        """Take what a session, None for the top one, reports on its children."""
        if event in CLOSED:
            child = self._open.get(child_of(data) or "")
            if child_of(data) is None and (asker := self._open.get(reporter or "")) is not None:
                for watcher in self.watchers:
                    watcher.on_rejection(asker, str(data.get("agent") or "agent"), reported_ending(event, data))
            if child is not None and _is_about(child, data):
                child.reported_end = reported_ending(event, data)
                self._close(child)
        elif event in ("tool:post", "tool:error") and (call := data.get("tool_call_id")):
            for child in list(self._open.values()):
                if child.facts.tool_call_id == call and self._reporter(child) == reporter:
                    self._end_call(child, reported_ending(event, data) if event == "tool:error" else None)

    def _end_call(self, child: LiveChild, reported: Ending | None) -> None:
        """The call that spawned a child ended; wait for the child's own ending, if it has none yet."""
        child.is_call_over, child.reported_end = True, reported
        if child.own_end is not None:
            self._close(child)

    def _reporter(self, child: LiveChild) -> str | None:
        parent = child.facts.parent_id
        return parent if parent in self._open else None

    def _close(self, child: LiveChild) -> None:
        """End a child, after its own children."""
        if self._open.pop(child.facts.session_id, None) is None:
            return
        self._over.add(child.facts.session_id)
        for other in [one for one in self._open.values() if one.facts.parent_id == child.facts.session_id]:
            self._close(other)
        for watcher in self.watchers:
            watcher.on_end(child)


def _is_about(child: LiveChild, data: Mapping[str, Any]) -> bool:
    """Return whether the call that ended is the one that spawned the child, not a rejected one."""
    call = data.get("tool_call_id")
    return call is None or child.facts.tool_call_id in (None, call)


def _worked(event: str, data: Mapping[str, Any]) -> bool:
    result = data.get("result")
    return event == "tool:post" and not (isinstance(result, Mapping) and result.get("success") is False)


def _key(data: Mapping[str, Any]) -> str:
    return str(data.get("tool_call_id") or data.get("span_id"))
