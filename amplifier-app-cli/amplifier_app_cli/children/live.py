"""Follow the child sessions of a running session: what each is doing, what it used, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_app_cli.children.endings import BEGUN, CLOSED, Ending, child_of, own_ending, settled, told_ending
from amplifier_app_cli.ui.layout import summarize_input
from amplifier_kit.engine.usage import UsageRecord

if TYPE_CHECKING:
    from amplifier_foundation.sessions.origin import ChildFacts


class ChildSums:
    """Sums of the children that have not ended."""

    def __init__(self) -> None:
        self._sums: dict[str, UsageRecord] = {}
        self._parents: dict[str, str] = {}

    def begin(self, facts: ChildFacts) -> None:
        """Note whose child it is, before it or a child of it uses anything."""
        self._parents[facts.session_id] = facts.parent_id

    def add(self, session_id: str, used: UsageRecord) -> None:
        """Add what a session used to its sum and to those above it; listens to a `UsageAccount`."""
        counted: set[str] = set()
        at: str | None = session_id
        while at in self._parents and at not in counted:
            counted.add(at)
            self._sums[at] = self._sums.get(at, UsageRecord()) + used
            at = self._parents.get(at)

    def end(self, facts: ChildFacts) -> UsageRecord:
        """Return the sum of a child that ended."""
        self._parents.pop(facts.session_id, None)
        return self._sums.pop(facts.session_id, UsageRecord())


#: What a child is doing when no tool of it runs, by the event that says so.
_DOING: Final = {
    "session:start": "starts",
    "session:resume": "goes on",
    "provider:request": "waits for the model",
    "llm:request": "waits for the model",
    "provider:retry": "waits to ask the model again",
    "provider:throttle": "waits to ask the model again",
    "llm:stream_block_delta": "writes",
    "approval:required": "waits for your answer",
    "approval:granted": "goes on",
    "approval:denied": "goes on",
    "context:pre_compact": "makes its context smaller",
    "llm:response": "has an answer",
    "orchestrator:complete": "ends",
}
#: Of an input that is shown, at most so much is kept.
_MOST_KEPT: Final = 200


@dataclass
class LiveChild:
    """One child that runs."""

    facts: ChildFacts
    #: Its agent, with a number when it is not the first of this name.
    name: str
    since: float
    state: str = "starts"
    #: The calls that run, by their id: the tool, and what it is about.
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: What it and all below it have used.
    usage: UsageRecord = field(default_factory=UsageRecord)
    is_begun: bool = False
    own_end: Ending | None = None
    told_end: Ending | None = None
    #: Whether the call that started it is over: when it was stopped, before the child is.
    is_let_go: bool = False

    @property
    def doing(self) -> str:
        """Return in words what it does now."""
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
        """Return how it ended, as far as anybody has told."""
        return settled(self.own_end, self.told_end, is_begun=self.is_begun)


class Watcher(Protocol):
    """Be told what becomes of children."""

    def on_start(self, child: LiveChild) -> None:
        """Take that a child runs, for the first time or again."""
        ...

    def on_change(self, child: LiveChild, event: str) -> None:
        """Take that a child does something else."""
        ...

    def on_end(self, child: LiveChild) -> None:
        """Take that a child is over."""
        ...

    def on_refusal(self, asker: LiveChild, agent: str, ending: Ending) -> None:
        """Take that a child asked in vain for an agent: there is no session that could tell its end."""
        ...


class LiveTree:
    """Keep the children that run. They are told by `take`, and the session that has them by `connect`.

    A child is over when the call that started it has told so: only that knows, for example, of a deadline.
    """

    def __init__(self, scrub: Callable[[Any], Any] = lambda value: value) -> None:
        """Keep of inputs what `scrub` leaves of them."""
        self.scrub = scrub
        self.watchers: list[Watcher] = []
        self._open: dict[str, LiveChild] = {}
        self._named: dict[str, int] = {}
        #: Those that are over: what they say afterwards is no new beginning, unless they are taken up again.
        self._over: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to the session at the top, for what it says of its children."""
        for event in (*CLOSED, "tool:post", "tool:error"):
            hooks.register(event, self._on_top, priority=960, name=f"app-children-{event}")

    def take(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take one event of a child, or of a child of one."""
        if event == "session:resume":
            self._over.discard(facts.session_id)
        if facts.session_id in self._over:
            return
        child = self._open.get(facts.session_id) or self._begin(facts)
        self._follow(child, event, data)
        self._note_told(facts.session_id, event, data)

    def count(self, session_id: str, used: UsageRecord) -> None:
        """Add what a session used to its child and to those above it; listens to a `UsageAccount`."""
        child = self._open.get(session_id)
        seen: set[str] = set()
        while child is not None and child.facts.session_id not in seen:
            seen.add(child.facts.session_id)
            child.usage += used
            child = self._open.get(child.facts.parent_id)

    def running(self) -> list[LiveChild]:
        """Return the children that are not over, each before those that it started."""
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
        """Let all go: the turn is over, and whoever has told no end by now has none, or was stopped with it."""
        for child in self.running()[::-1]:
            if was_stopped and child.told_end is None:
                child.told_end = Ending("cancelled")
            self._close(child)
        self._named.clear()

    # -- what is heard --

    def _on_top(self, event: str, data: dict[str, Any]) -> None:
        self._note_told(None, event, data)

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
            child.calls.pop(_key(data), None)
            child.state = "goes on"
        elif event == "session:end":
            child.own_end, child.calls = own_ending(data), {}
            if child.facts.tool_call_id is None or child.is_let_go:  # nobody will tell more of it
                self._close(child)
                return
        elif event in BEGUN:
            child.is_begun = True
        if event in _DOING:
            child.state = _DOING[event]
        for watcher in self.watchers:
            watcher.on_change(child, event)

    def _note_told(self, teller: str | None, event: str, data: Mapping[str, Any]) -> None:
        """Take what a session says of those that it started; None is the one at the top."""
        if event in CLOSED:
            told = self._open.get(child_of(data) or "")
            if child_of(data) is None and (asker := self._open.get(teller or "")) is not None:
                for watcher in self.watchers:
                    watcher.on_refusal(asker, str(data.get("agent") or "agent"), told_ending(event, data))
            if told is not None and _is_about(told, data):
                told.told_end = told_ending(event, data)
                self._close(told)
        elif event in ("tool:post", "tool:error") and (call := data.get("tool_call_id")):
            for child in list(self._open.values()):
                if child.facts.tool_call_id == call and self._teller(child) == teller:
                    self._let_go(child, told_ending(event, data) if event == "tool:error" else None)

    def _let_go(self, child: LiveChild, told: Ending | None) -> None:
        """Take that the call of a child is over; the child has its last word, if it has not said it."""
        child.is_let_go, child.told_end = True, told
        if child.own_end is not None:
            self._close(child)

    def _teller(self, child: LiveChild) -> str | None:
        parent = child.facts.parent_id
        return parent if parent in self._open else None

    def _close(self, child: LiveChild) -> None:
        """Let a child go, those that it started before it."""
        if self._open.pop(child.facts.session_id, None) is None:
            return
        self._over.add(child.facts.session_id)
        for other in [one for one in self._open.values() if one.facts.parent_id == child.facts.session_id]:
            self._close(other)
        for watcher in self.watchers:
            watcher.on_end(child)


def _is_about(child: LiveChild, data: Mapping[str, Any]) -> bool:
    """Tell whether the call that ended is the one that the child works for: another may have asked for it in vain."""
    call = data.get("tool_call_id")
    return call is None or child.facts.tool_call_id in (None, call)


def _key(data: Mapping[str, Any]) -> str:
    return str(data.get("tool_call_id") or data.get("span_id"))
