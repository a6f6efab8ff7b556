"""Run one turn from the prompt to the answer, and close it properly however it ends.

The loops are thin layers over this: they choose a name, a way to number iterations, and what happens between them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from amplifier_core.bounded_call import call, running_task
from amplifier_core.events import (
    CANCEL_COMPLETED,
    CANCEL_REQUESTED,
    EXECUTION_END,
    EXECUTION_START,
    ORCHESTRATOR_COMPLETE,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    PROVIDER_RESOLVE,
)
from amplifier_core.models import HookResult
from amplifier_kit.engine.loop.asking import Asker, LoopMemory, RequestDenied
from amplifier_kit.engine.loop.calls import CallRunner, Finished
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.guard import Circle, LoopGuard, Step
from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.loop.reply import Call, Reply
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.watch import Watch
from amplifier_kit.engine.pairing import tool_result
from amplifier_kit.engine.tasks import Stopped, run_to_end

__all__ = ["EXECUTION_HEARTBEAT", "LOOP_DETECTED", "Outcome", "Turn"]

logger = logging.getLogger(__name__)

EXECUTION_HEARTBEAT: Final = "execution:heartbeat"
LOOP_DETECTED: Final = "orchestrator:loop_detected"

_PREVIEW: Final = 200
_CALLBACK_SECONDS: Final = 5.0
_LIMIT_SOURCE: Final = "orchestrator-loop-limit"
_GUARD_SOURCE: Final = "orchestrator-loop-guard"
_INTERRUPTED: Final = "[The turn was interrupted before there was an answer.]"


class Outcome(NamedTuple):
    """Say how a turn ended: its text, success, incomplete, cancelled or error, and why when it is no success."""

    text: str
    status: str
    reason: str | None = None


class Turn:
    """Run one turn of a session; make a new one for each."""

    name: ClassVar[str]
    #: The number of the first iteration in events.
    first_iteration: ClassVar[int] = 0
    asker_type: ClassVar[type[Asker]] = Asker
    runner_type: ClassVar[type[CallRunner]] = CallRunner

    def __init__(
        self,
        config: LoopConfig,
        memory: LoopMemory,
        *,
        context: Any,
        providers: Mapping[str, Any],
        tools: Mapping[str, Any] | None,
        hooks: Any,
        coordinator: Any,
    ) -> None:
        self.config = config
        self.providers = providers
        self.host = Host(context, hooks, coordinator)
        tools = {} if tools is None else tools  # an empty one too is the live one, which may fill meanwhile
        self.watch = Watch(
            self.host, interval=config.heartbeat_interval, on_cancel=self._tell_cancelled, on_beat=self._tell_alive
        )
        self.asker = self.asker_type(self.host, config, self.watch, memory, context=context, tools=tools)
        self.runner = self.runner_type(self.host, config, self.watch, tools)
        self._started = time.monotonic()
        #: Model calls made, and the last thing the model said.
        self.requests = 0
        self.text = ""
        #: Whether any tool was called since somebody last asked.
        self.called_tools = False
        #: Whether the turn ended because somebody asked it to.
        self.was_cancelled = False

    async def run(self, prompt: str) -> str:
        """Return the answer to `prompt`; raise what the provider or the context raises.

        Whatever happens, `prompt:complete`, `orchestrator:complete` and `execution:end` are emitted once, at the end.
        """
        outcome = Outcome("", "error", "error")
        self.watch.start()
        try:
            await self.host.emit(EXECUTION_START, {"prompt": prompt})
            outcome = await self._submit(prompt)
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError) or self.host.is_cancelled
            outcome = Outcome("", *(("cancelled", "cancelled") if is_cancelled else ("error", "error")))
            raise
        finally:
            await run_to_end(self._close, outcome)
        return outcome.text

    # -- what loops may change --

    def wanted_provider(self) -> str | None:
        """Return the name of the provider to use, None to leave it to priorities."""
        return self.config.default_provider

    def choose(self) -> Choice:
        """Return the provider that answers this turn."""
        return choose_provider(self.providers, self.wanted_provider())

    async def before_request(self) -> None:
        """Do what comes before each model call."""

    def wants_more(self) -> bool:
        """Tell whether the turn goes on although the model has given its answer."""
        return False

    def completion_facts(self) -> dict[str, Any]:
        """Return what `orchestrator:complete` says besides."""
        return {}

    async def answer(self, choice: Choice) -> Outcome:
        """Return the answer to what was asked."""
        return await self.converse(choice)

    # -- the way from prompt to answer --

    async def _submit(self, prompt: str) -> Outcome:
        sent = {"prompt": prompt}
        verdict = await self.host.ask(PROMPT_SUBMIT, sent)
        if verdict.action == "deny":
            return _denied(verdict.reason)
        is_changed, submitted = self.host.changed(sent, verdict, "prompt")
        await self.host.store({"role": "user", "content": str(submitted) if is_changed else prompt})
        choice = self.choose()
        if not choice.is_wanted:
            await self._tell_substitute(choice)
        return await self.answer(choice)

    async def _tell_substitute(self, choice: Choice) -> None:
        wanted = self.wanted_provider()
        logger.warning("%s: provider '%s' is not mounted; '%s' answers instead", self.name, wanted, choice.name)
        facts = {"provider": choice.name, "requested": wanted, "reason": f"provider '{wanted}' is not mounted"}
        await self.host.emit(PROVIDER_RESOLVE, facts)

    async def converse(self, choice: Choice) -> Outcome:
        """Ask the model and run its tools until it has an answer, or may not go on."""
        guard = LoopGuard(self.config.loop_guard_warn, self.config.loop_guard_stop)
        done = 0
        while not self.host.is_cancelled:
            try:
                if self.config.is_beyond(done):
                    return await self._last_word(choice)
                await self.before_request()
                reply = await self._ask(choice)
            except Stopped:
                break
            except RequestDenied as denied:
                return await self._ended(_denied(str(denied)))
            if self.host.is_cancelled_at_once:
                break
            done += 1
            if reply.calls:
                circle = guard.record(self._steps(await self._call_tools(reply)))
                if circle is not None:
                    await self._tell_circle(circle)
                    if circle.must_stop:
                        return await self._ended(_stopped(circle))
                continue
            if reply.message is not None:
                await self.host.store(reply.message)
            if not self.wants_more():
                return Outcome(reply.text, "success")
        await self.watch.cancellation_told()
        return await self._ended(Outcome(self.text, "cancelled", "cancelled"))

    async def _ask(self, choice: Choice, **facts: Any) -> Reply:
        number = self.first_iteration + self.requests
        self.requests += 1
        reply = await self.asker.ask(choice, number, **facts)
        self.text = reply.text or self.text
        return reply

    async def _last_word(self, choice: Choice) -> Outcome:
        """Let the model sum up at the limit of iterations; tools it calls now are not run."""
        limit = self.config.max_iterations
        reminder = (
            f'<system-reminder source="{_LIMIT_SOURCE}">\nThe limit of {limit} iterations is reached. Call no more '
            "tools: say what was done, what is left, and what should happen next.\n</system-reminder>"
        )
        await self.host.carry_out(
            HookResult(
                action="inject_context",
                context_injection=reminder,
                context_injection_role="user",
                ephemeral=True,
            ),
            "provider:request",
        )
        reply = await self._ask(choice, max_reached=True)
        notice = f"[Stopped: the limit of {limit} iterations was reached before the work was done.]"
        if reply.message is not None:
            not_run = [Finished(call, f"Not run: the limit of {limit} iterations is reached") for call in reply.calls]
            await run_to_end(self._keep, reply.message, not_run)
        text = f"{reply.text}\n\n{notice}" if reply.text else notice
        return await self._ended(Outcome(text, "incomplete", "max_iterations"))

    async def _ended(self, outcome: Outcome) -> Outcome:
        """End a turn before its time: let the assistant speak last, so that the next prompt follows an answer."""
        if self.host.last_stored is not None and self.host.last_stored.get("role") == "tool":
            text = outcome.text if outcome.status == "incomplete" else _INTERRUPTED
            await self.host.store({"role": "assistant", "content": text, "metadata": {"synthetic": True}})
        return outcome

    # -- tools --

    async def _call_tools(self, reply: Reply) -> list[Finished]:
        """Store the message, run its calls and store their results; none is ever left without one."""
        assert reply.message is not None
        self.called_tools = True
        self.runner.finished.clear()
        try:
            await self.host.store(reply.message)
            finished = await self.runner.run(reply.calls)
        except BaseException:
            if self.host.last_stored is reply.message:
                await run_to_end(self._keep_interrupted, reply.calls)
            raise
        await run_to_end(self._keep_results, finished)
        await self.runner.settle()
        return finished

    async def _keep(self, message: dict[str, Any], finished: Sequence[Finished]) -> None:
        await self.host.add(message)
        await self._keep_results(finished)

    async def _keep_interrupted(self, calls: Sequence[Call]) -> None:
        await self._keep_results(self.runner.outcome(calls))
        await self.host.add({"role": "assistant", "content": _INTERRUPTED, "metadata": {"synthetic": True}})
        await self.runner.settle()

    async def _keep_results(self, finished: Sequence[Finished]) -> None:
        """Store results in call order; one that cannot be stored is replaced by a short one that says so."""
        failure: Exception | None = None
        for done in finished:
            try:
                await self.host.add(done.message)
                continue
            except Exception as error:
                logger.error("The result of call %s could not be stored: %s", done.call.id, error, exc_info=error)
                text = f"Error: the result of tool '{done.call.name}' could not be stored: {error}"
            try:
                await self.host.add(tool_result(done.call.id, done.call.name, text, synthetic=True))
            except Exception as error:  # the ledger takes nothing: the next request is repaired, this turn ends
                failure = failure or error
        if failure is not None:
            raise failure

    def _steps(self, finished: Sequence[Finished]) -> list[Step]:
        tools = self.runner.tools
        return [
            Step(done.call.name, done.call.arguments, done.content)
            for done in finished
            if getattr(tools.get(done.call.name), "polling", False) is not True
        ]

    # -- what others are told --

    async def _tell_circle(self, circle: Circle) -> None:
        await self.host.emit(
            LOOP_DETECTED,
            {
                "orchestrator": self.name,
                "action": "stop" if circle.must_stop else "warn",
                "repetitions": circle.repetitions,
                "period": circle.period,
                "tools": circle.tools,
                "iteration": self.first_iteration + self.requests - 1,
            },
        )
        if not circle.must_stop:
            self.host.injections.remind(
                _GUARD_SOURCE,
                f"The last calls ({', '.join(circle.tools)}) brought the same results {circle.repetitions} times. "
                "Repeating them changes nothing: try another way, or say what is missing.",
            )

    async def _tell_alive(self, running: list[dict[str, Any]]) -> None:
        number = self.first_iteration + max(self.requests - 1, 0)
        await self.host.emit(EXECUTION_HEARTBEAT, {"orchestrator": self.name, "iteration": number, "running": running})

    async def _tell_cancelled(self) -> None:
        """Say once that a cancellation was noticed, and let callbacks know; what they raise is logged."""
        try:
            await call(running_task(), _CALLBACK_SECONDS, self._spread_cancellation)
        except Exception as error:
            logger.error("Could not tell everyone of the cancellation: %s", error, exc_info=error)

    async def _spread_cancellation(self) -> None:
        token = self.host.token
        told = {"orchestrator": self.name, "state": token.state, "turn_count": self.requests}
        await self.host.emit(CANCEL_REQUESTED, told)
        await token.trigger_callbacks()

    async def _close(self, outcome: Outcome) -> None:
        """Emit what closes a turn, each event once; one that fails does not keep back the others."""
        try:
            await self.watch.cancellation_told()
            status, reason = outcome.status, outcome.reason
            if self.host.is_cancelled and status != "error":
                status = reason = "cancelled"
            self.was_cancelled = status == "cancelled"
            completed: dict[str, Any] = {"orchestrator": self.name, "turn_count": self.requests, "status": status}
            if reason is not None:
                completed["reason"] = reason
            preview = {"response_preview": outcome.text[:_PREVIEW], "length": len(outcome.text), "status": status}
            await self._tell_end(PROMPT_COMPLETE, preview)
            await self._tell_end(ORCHESTRATOR_COMPLETE, {**completed, **self.completion_facts()})
            ended = status if status in ("cancelled", "error") else "completed"
            duration = round((time.monotonic() - self._started) * 1000, 3)
            await self._tell_end(EXECUTION_END, {"response": outcome.text, "status": ended, "duration_ms": duration})
            if status == "cancelled" and self.host.is_cancelled and not self.host.is_in_kernel_turn:
                facts = {"was_immediate": self.host.is_cancelled_at_once, "turn_count": self.requests}
                await self._tell_end(CANCEL_COMPLETED, {"orchestrator": self.name, **facts})
        finally:
            await self.watch.stop()

    async def _tell_end(self, event: str, data: dict[str, Any]) -> None:
        try:
            await self.host.ask(event, data)
        except Exception as error:
            logger.error("Could not emit %s: %s", event, error, exc_info=error)


def _denied(reason: str | None) -> Outcome:
    return Outcome(f"Operation denied: {reason or 'no reason given'}", "incomplete", "denied")


def _stopped(circle: Circle) -> Outcome:
    tools = ", ".join(circle.tools)
    text = f"[Stopped: the same calls ({tools}) brought the same results {circle.repetitions} times in a row.]"
    return Outcome(text, "incomplete", "loop_detected")
