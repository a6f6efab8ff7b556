"""Whole trees of sessions that share a budget, whatever happens in them, in any order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_foundation.usage.budget import BUDGET_EXHAUSTED, BudgetExceededError, SessionBudget
from amplifier_kit.engine.usage import BudgetExhaustedError, require_allowance


@dataclass
class Ask:
    """A question to the model, of the loop or of a hook: attempts that fail, then an answer or none."""

    tokens: int
    usd: Decimal | None
    waits: int
    failures: int
    ends: str
    is_of_hook: bool


@dataclass
class Tool:
    """A tool call that takes a while."""

    waits: int


@dataclass
class Session:
    """What a session does, one step after the other; lists are child sessions side by side."""

    limits: dict[str, Any]
    steps: list[Any] = field(default_factory=list)
    #: After so many turns of the event loop, the session is cancelled; None for never.
    cancelled_after: int | None = None


_DEAREST = Decimal(1)
_asks = st.builds(
    Ask,
    tokens=st.integers(0, 9),
    usd=st.sampled_from([Decimal("0.5"), _DEAREST, Decimal(0), Decimal("0.25"), None]),
    waits=st.integers(0, 3),
    failures=st.integers(0, 2),
    ends=st.sampled_from(["ok", "ok", "ok", "RateLimitError", "StreamError"]),
    is_of_hook=st.booleans(),
)
#: One or two limits, and tight ones: most are reached.
_limits = st.dictionaries(
    st.sampled_from(["usd", "tokens", "turns", "tool_calls", "depth", "fan_out", "seconds"]),
    st.integers(0, 5),
    min_size=1,
    max_size=2,
)
_few = st.sampled_from([{}, {}, {}, {"turns": 1}, {"tokens": 3}, {"fan_out": 1}, {"depth": 0}, {"seconds": 2}])
_rarely = st.sampled_from([None] * 6 + [0, 3, 9, 15])
_tools = st.builds(Tool, st.integers(0, 2))
_leaf = st.builds(Session, _few, st.lists(_asks | _tools, min_size=1, max_size=3), _rarely)
_inner = st.builds(
    Session,
    _few,
    st.lists(_asks | st.lists(_leaf, min_size=1, max_size=3), min_size=1, max_size=2),
    _rarely,
)
_roots = st.builds(
    Session,
    _limits,
    st.lists(st.lists(_leaf | _inner, min_size=1, max_size=3) | _asks, min_size=1, max_size=3),
    _rarely,
)


class Tree:
    """Run sessions as the program does: real hooks, the kit's check before every attempt, tasks side by side."""

    def __init__(self) -> None:
        self.budgets: list[tuple[SessionBudget, dict[str, Any]]] = []
        self.children: dict[SessionBudget, list[SessionBudget]] = {}
        self.parents: dict[SessionBudget, SessionBudget] = {}
        self.running: dict[SessionBudget, int] = {}
        #: What the calls in flight will use, and the most that this ever was, by budget.
        self.flying: dict[SessionBudget, tuple[int, Decimal]] = {}
        self.most: dict[SessionBudget, tuple[int, Decimal]] = {}
        self.told: list[str] = []
        #: Seconds since the first session began: one for each wait of anybody.
        self.now = 0.0
        self.began: dict[SessionBudget, float] = {}
        #: Questions and tool calls that were made, by budget.
        self.made: dict[tuple[SessionBudget, str], int] = {}

    async def run(self, session: Session, budget: SessionBudget) -> None:
        """Carry out the steps until they are done or the budget says no; cancelled when the session says so."""
        coordinator: Any = ModuleCoordinator(
            session=SimpleNamespace(session_id=f"s{len(self.budgets)}", parent_id=None, config={"session": {}})
        )
        self._begin(budget, session.limits)
        budget.connect(coordinator)
        coordinator.hooks.register(BUDGET_EXHAUSTED, lambda event, data: self.told.append(data["limit_of"]))
        work = asyncio.ensure_future(self._steps(session, budget, coordinator))
        if session.cancelled_after is not None:
            for _ in range(session.cancelled_after):
                await asyncio.sleep(0)
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if not work.cancelled():
                work.cancel()
                await asyncio.wait({work})
                raise

    def _begin(self, budget: SessionBudget, limits: dict[str, Any]) -> None:
        self.budgets.append((budget, limits))
        self.began[budget] = self.now

    async def _steps(self, session: Session, budget: SessionBudget, coordinator: Any) -> None:
        for number, step in enumerate(session.steps):
            if isinstance(step, Ask):
                goes_on = await self._ask(step, budget, coordinator, f"{number}")
            elif isinstance(step, Tool):
                goes_on = await self._tool(step.waits, budget, coordinator)
            else:
                goes_on = await self._tool(1, budget, coordinator)
                if goes_on:
                    await asyncio.gather(*(self._spawn(child, budget) for child in step))
            if not goes_on:
                return

    async def _spawn(self, session: Session, parent: SessionBudget) -> None:
        try:
            child = parent.open_child("agent", session.limits)
        except BudgetExceededError:
            return
        self.children.setdefault(parent, []).append(child)
        self.parents[child] = parent
        for one in self.above(parent):
            self.running[one] = self.running.get(one, 0) + 1
            assert self.running[one] <= self._limit(one, "fan_out")
            assert self._level(child) - self._level(one) <= self._limit(one, "depth")
        try:
            with child:
                await self.run(session, child)
        finally:
            for one in self.above(parent):
                self.running[one] -= 1

    async def _tool(self, waits: int, budget: SessionBudget, coordinator: Any) -> bool:
        verdict = await coordinator.hooks.emit("tool:pre", {"tool_name": "t", "tool_input": {}, "tool_call_id": "1"})
        if verdict.action == "deny":
            return False
        self._count(budget, "tool_calls")
        await self._pass_time(waits)
        return True

    async def _pass_time(self, waits: int) -> None:
        for _ in range(waits):
            self.now += 1
            await asyncio.sleep(0)

    async def _ask(self, ask: Ask, budget: SessionBudget, coordinator: Any, span: str) -> bool:
        hooks, name = coordinator.hooks, {"provider": "p"}
        if ask.is_of_hook:
            return await self._question(ask, budget, coordinator, {**name, "span_id": "of-a-hook"})
        facts = {**name, "span_id": span}
        if (await hooks.emit("provider:request", facts)).action == "deny":
            return False
        goes_on = await self._question(ask, budget, coordinator, facts)
        await hooks.emit("provider:response" if goes_on else "provider:error", facts)
        return goes_on

    async def _question(self, ask: Ask, budget: SessionBudget, coordinator: Any, facts: dict[str, Any]) -> bool:
        hooks = coordinator.hooks
        await hooks.emit("llm:request", facts)
        is_made = False
        try:
            for _ in range(ask.failures + 1):
                require_allowance(coordinator)
                if not is_made:
                    is_made = True
                    self._count(budget, "turns")
                await self._attempt(ask, budget)
        except (BudgetExhaustedError, asyncio.CancelledError) as error:
            failed = {"status": "error", "error": {"type": type(error).__name__}, "unpriced_attempts": 0}
            await hooks.emit("llm:response", {**facts, **failed})
            if isinstance(error, asyncio.CancelledError):
                raise
            return False
        if ask.ends != "ok":
            await hooks.emit("llm:response", {**facts, "status": "error", "error": {"type": ask.ends}})
            return True
        price = {} if ask.usd is None else {"cost_usd": str(ask.usd)}
        await hooks.emit("llm:response", {**facts, "status": "ok", "usage": {"output_tokens": ask.tokens, **price}})
        return True

    async def _attempt(self, ask: Ask, budget: SessionBudget) -> None:
        # What breaks off is charged as the dearest answer was.
        usd, tokens = _DEAREST if ask.ends == "StreamError" else ask.usd or Decimal(0), ask.tokens
        for one in self.above(budget):
            used = one.used()
            assert used["tokens"] < self._limit(one, "tokens")
            assert used["usd"] < self._limit(one, "usd")
            assert self.now - self.began[one] < self._limit(one, "seconds")
            before = self.flying.get(one, (0, Decimal(0)))
            self.flying[one] = before[0] + tokens, before[1] + usd
            most = self.most.get(one, (0, Decimal(0)))
            self.most[one] = max(most[0], self.flying[one][0]), max(most[1], self.flying[one][1])
        try:
            await self._pass_time(ask.waits)
        finally:
            # Counted by the event that follows: until then it is in flight.
            asyncio.get_running_loop().call_soon(self._landed, budget, tokens, usd)

    def _count(self, budget: SessionBudget, name: str) -> None:
        for one in self.above(budget):
            self.made[one, name] = self.made.get((one, name), 0) + 1
            assert self.made[one, name] <= self._limit(one, name)

    def _landed(self, budget: SessionBudget, tokens: int, usd: Decimal) -> None:
        for one in self.above(budget):
            before = self.flying[one]
            self.flying[one] = before[0] - tokens, before[1] - usd

    def above(self, budget: SessionBudget) -> list[SessionBudget]:
        """Return a budget and all above it."""
        found = [budget]
        while found[-1] in self.parents:
            found.append(self.parents[found[-1]])
        return found

    def _level(self, budget: SessionBudget) -> int:
        return len(self.above(budget))

    def _limit(self, budget: SessionBudget, name: str) -> Any:
        limits = next(limits for one, limits in self.budgets if one is budget)
        return limits.get(name, Decimal("Infinity"))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(_roots)
def test_no_tree_passes_a_limit_by_more_than_the_calls_in_flight(session: Session) -> None:
    """Children side by side, retries, hooks' calls, time, cancellations: limits hold, all adds up."""

    async def main() -> Tree:
        tree = Tree()
        with suppress(asyncio.CancelledError):
            await tree.run(session, SessionBudget(session.limits, clock=lambda: tree.now))
        return tree

    tree = asyncio.run(main())
    for budget, own in tree.budgets:
        used, most = budget.used(), tree.most.get(budget, (0, Decimal(0)))
        assert used["turns"] <= own.get("turns", used["turns"])
        assert used["tool_calls"] <= own.get("tool_calls", used["tool_calls"])
        assert used["tokens"] <= own.get("tokens", used["tokens"]) + most[0]
        assert used["usd"] <= own.get("usd", used["usd"]) + most[1]
        rows = budget.spent()
        assert sum(row["tokens"] for row in rows) == used["tokens"]
        assert sum(Decimal(row["usd"]) for row in rows) == used["usd"]
        assert 0 <= sum(Decimal(row["estimated_usd"]) for row in rows) == used["estimated_usd"] <= used["usd"]
        mine = [row for row in rows if row["session"] == budget.session_id]
        for name in ("tokens", "usd", "estimated_usd"):
            below = sum(child.used()[name] for child in tree.children.get(budget, []))
            assert sum(Decimal(row[name]) for row in mine) + below == used[name]
        assert budget.running_children == 0
    assert len(tree.told) == len(set(tree.told)), "a limit that is reached is told once in the whole tree"
