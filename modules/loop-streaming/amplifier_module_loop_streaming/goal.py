"""Pursue a goal over several turns: work, check whether it is met, continue, and stop when there is no progress."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final, Protocol

from amplifier_core.events import PLAN_END, PLAN_START
from amplifier_kit.engine.loop.config import UNLIMITED
from amplifier_kit.engine.loop.request import Choice
from amplifier_kit.engine.loop.session import TurnSession
from amplifier_kit.engine.loop.turn import Outcome
from amplifier_kit.engine.tasks import Stopped, run_bounded, run_to_end
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_loop_streaming.config import StreamingConfig
from amplifier_module_loop_streaming.judge import Judge, Judgement, render_transcript
from amplifier_module_loop_streaming.turn import GOAL_PROGRESS

__all__ = ["GoalLoop", "find_goal", "overlap"]

logger = logging.getLogger(__name__)

_SCHEMA_VERSION: Final = 1
_WORD: Final = re.compile(r"\w+")


class Worker(Protocol):
    """The turn, as the goal loop uses it."""

    name: ClassVar[str]
    session: TurnSession
    called_tools: bool

    async def converse(self, choice: Choice) -> Outcome:
        """Work until the model has an answer."""
        ...

    async def history(self) -> list[dict[str, Any]]:
        """Return the conversation so far."""
        ...


class _Stall(NamedTuple):
    """A sign of missing progress, and the judge's verdict on it."""

    detail: str
    verdict: Judgement


def find_goal(session_state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the goal that an app has set, with the loop's own keys added; None when none is set."""
    goal = session_state.get("goal")
    if not isinstance(goal, dict) or not str(goal.get("condition") or "").strip():
        return None
    defaults = {"turns_used": 0, "last_reason": None, "cap": None, "continuations": 0, "no_tool_turns": 0}
    for key, value in {**defaults, "escalated": False}.items():
        goal.setdefault(key, value)
    if not isinstance(goal.get("reasons"), list):
        goal["reasons"] = []
    return goal


class GoalLoop:
    """Run turns until a goal is met, its cap is reached, or there is no more progress."""

    def __init__(self, worker: Worker, goal: dict[str, Any], config: StreamingConfig, judge: Judge) -> None:
        self._worker = worker
        self._session = worker.session
        self.goal = goal
        self._config = config
        self._judge = judge
        cap = goal.get("cap")
        self._cap: int = cap if isinstance(cap, int) and cap > 0 else config.goal_default_cap
        self._state = "error"

    async def run(self, choice: Choice, stop: asyncio.Future[None]) -> Outcome:
        """Return the outcome of the last turn; `plan:start` and `plan:end` enclose all of them."""
        goal = self.goal
        facts = {"orchestrator": self._worker.name, "condition": goal["condition"], "cap": self._shown_cap()}
        await self._session.emit(PLAN_START, {**facts, "turns_used": goal["turns_used"]})
        try:
            return await self._pursue(choice, stop)
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError) or self._session.is_cancelled
            state = "cancelled" if is_cancelled else "error"
            await run_to_end(self._report, state, str(error) or type(error).__name__)
            raise
        finally:
            used = {"turns_used": goal["turns_used"], "continuations": goal["continuations"]}
            ended = {**facts, **used, "status": self._state, "reason": goal["last_reason"]}
            await run_to_end(self._session.emit, PLAN_END, ended)

    async def _pursue(self, choice: Choice, stop: asyncio.Future[None]) -> Outcome:
        while True:
            self._worker.called_tools = False
            outcome = await self._worker.converse(choice)
            ended = await self._end_after_turn(outcome)
            if ended is not None:
                return ended
            transcript = render_transcript(await self._worker.history(), self._config)
            try:
                met = await run_bounded(self._judge.is_met, self.goal["condition"], transcript, stop=stop)
            except Stopped:
                return await self._finish("cancelled", "cancelled while the goal was checked", outcome)
            except Exception as error:
                logger.error("The goal could not be checked: %s", error, exc_info=error)
                return await self._finish("error", f"the goal could not be checked: {error}", outcome)
            self.goal["last_reason"] = met.reason
            if met.is_yes:
                return await self._finish("achieved", met.reason, outcome)
            ended = await self._continue(met, transcript, outcome, stop)
            if ended is not None:
                return ended

    async def _end_after_turn(self, outcome: Outcome) -> Outcome | None:
        """Count one turn; return the outcome when no other may follow."""
        goal = self.goal
        goal["turns_used"] += 1
        goal["no_tool_turns"] = 0 if self._worker.called_tools else goal["no_tool_turns"] + 1
        if outcome.status == "cancelled":
            return await self._finish("cancelled", "the session was asked to stop", outcome)
        if outcome.reason == "denied":
            return await self._finish("error", outcome.text, outcome)
        if outcome.reason == "loop_detected":
            return await self._finish("stalled", outcome.text, outcome, detail="the same calls again and again")
        if self._session.state.get("goal") is not goal:
            return await self._finish("cancelled", "the goal was cleared", outcome)
        return None

    async def _continue(
        self, met: Judgement, transcript: str, outcome: Outcome, stop: asyncio.Future[None]
    ) -> Outcome | None:
        """Ask for another turn; return the outcome instead when the cap is reached or progress has stopped."""
        goal = self.goal
        goal["reasons"] = [*goal["reasons"], met.reason][-self._config.goal_summary_max_reasons :]
        if self._cap != UNLIMITED and goal["turns_used"] >= self._cap:
            return await self._finish("cap_hit", met.reason, outcome)
        try:
            stall = await self._check_stall(transcript, stop)
        except Stopped:
            return await self._finish("cancelled", "cancelled while progress was checked", outcome)
        if stall is not None and stall.verdict.is_yes:
            if goal["escalated"]:
                return await self._finish("stalled", met.reason, outcome, stall.detail, stall.verdict.reason)
            goal["escalated"] = True
        goal["continuations"] += 1
        await self._report("continuing", met.reason, stall and stall.detail, stall and stall.verdict.reason)
        prompt = _continuation(goal["condition"], met.reason, is_stuck=stall is not None and stall.verdict.is_yes)
        await self._session.store({"role": "user", "content": prompt, "metadata": {"source": "goal"}})
        return None

    async def _check_stall(self, transcript: str, stop: asyncio.Future[None]) -> _Stall | None:
        """Ask the judge when progress seems to have stopped; a judge that fails counts as a yes."""
        goal = self.goal
        recent = goal["reasons"][-self._config.goal_busy_stall_window :]
        if goal["no_tool_turns"] >= self._config.goal_stall_threshold:
            detail = f"{goal['no_tool_turns']} turns without a tool call"
        elif len(recent) >= self._config.goal_busy_stall_window and _are_alike(
            recent, self._config.goal_busy_stall_min_overlap
        ):
            detail = f"{len(recent)} turns with much the same thing missing"
        else:
            return None
        goal["no_tool_turns"] = 0
        try:
            verdict = await run_bounded(self._judge.is_stuck, goal["condition"], goal["reasons"], transcript, stop=stop)
        except Stopped:
            raise
        except Exception as error:
            logger.error("Progress could not be checked: %s", error, exc_info=error)
            verdict = Judgement(True, f"progress could not be checked: {error}")
        return _Stall(detail, verdict)

    async def _finish(
        self, state: str, reason: str, outcome: Outcome, detail: str | None = None, verdict: str | None = None
    ) -> Outcome:
        """Report how the goal loop ended; a goal that was cancelled or could not be checked stays set."""
        await self._report(state, reason, detail, verdict)
        if state in ("achieved", "cap_hit", "stalled") and self._session.state.get("goal") is self.goal:
            del self._session.state["goal"]
        if state in ("achieved", "cancelled") or outcome.status != "success":
            return outcome
        return Outcome(outcome.text, "incomplete", f"goal_{state}")

    async def _report(self, state: str, reason: str, detail: str | None = None, verdict: str | None = None) -> None:
        goal, self._state = self.goal, state
        distinct = _distinct(goal["reasons"], self._config.goal_busy_stall_min_overlap)
        progress = {
            "orchestrator": self._worker.name,
            "state": state,
            "turn": goal["turns_used"],
            "continuations": goal["continuations"],
            "cap": self._shown_cap(),
            "reason": reason,
            "reasons": list(goal["reasons"]),
            "stall_detail": detail,
            "summary": None if state == "continuing" else _summary(state, goal, distinct),
            "distinct_blockers": len(distinct),
            "stall_verdict": verdict,
            "condition": goal["condition"],
            "schema_version": _SCHEMA_VERSION,
        }
        await self._session.emit(GOAL_PROGRESS, progress)

    def _shown_cap(self) -> int | None:
        return None if self._cap == UNLIMITED else self._cap


def overlap(one: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1."""
    ours, theirs = (set(_WORD.findall(text.lower())) for text in (one, other))
    return len(ours & theirs) / len(ours | theirs) if ours | theirs else 1.0


def _are_alike(reasons: Sequence[str], least: float) -> bool:
    return all(overlap(one, other) >= least for one, other in pairwise(reasons))


def _distinct(reasons: Sequence[str], least: float) -> list[str]:
    found: list[str] = []
    for reason in reasons:
        if all(overlap(reason, known) < least for known in found):
            found.append(reason)
    return found


def _summary(state: str, goal: dict[str, Any], distinct: Sequence[str]) -> str:
    missing = "; ".join(distinct) or "none recorded"
    return f"{state} after {goal['turns_used']} turns; reasons why it was not met: {missing}"


def _continuation(condition: str, reason: str, *, is_stuck: bool) -> str:
    text = f"The goal is not met yet: {reason}\n\nGoal: {condition}\n\nContinue."
    if not is_stuck:
        return text
    return (
        f"{text} The last attempts led nowhere. Do not repeat them: take a different way, use the tools to find out "
        "what is in the way, or say plainly what only a person can do."
    )
