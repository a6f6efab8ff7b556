"""Run a turn from the prompt to the answer, and close it properly however it ends.

`TurnLoop` is the orchestrator that a loop module mounts; it runs one `Turn` for every prompt. Loops subclass both and
override the methods under "for loops to override".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from amplifier_core.data import INTERRUPTS
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
from amplifier_kit.config import read_config
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.loop_guard import LoopGuard, Repetition, Step
from amplifier_kit.engine.loop.model_call import LoopMemory, ModelCaller, RequestDenied
from amplifier_kit.engine.loop.monitor import TurnMonitor
from amplifier_kit.engine.loop.reply import Call, Reply
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.session import TurnSession, changed_value
from amplifier_kit.engine.loop.tool_calls import CallResult, ToolRunner
from amplifier_kit.engine.tasks import Stopped, run_bounded, run_to_end
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

EXECUTION_HEARTBEAT: Final = "execution:heartbeat"
LOOP_DETECTED: Final = "orchestrator:loop_detected"

_PREVIEW: Final = 200
_CALLBACK_SECONDS: Final = 5.0
_LIMIT_SOURCE: Final = "orchestrator-loop-limit"
_GUARD_SOURCE: Final = "orchestrator-loop-guard"
_INTERRUPTED: Final = "[The turn was interrupted before there was an answer.]"


class Outcome(NamedTuple):
    """How a turn ended: its text, the status success, incomplete, cancelled or error, and a reason unless success."""

    text: str
    status: str
    reason: str | None = None


class Turn:
    """Run one turn of a session; create a new one for each."""

    name: ClassVar[str]
    #: The number of the first iteration in events.
    first_iteration: ClassVar[int] = 0
    model_caller_type: ClassVar[type[ModelCaller]] = ModelCaller
    tool_runner_type: ClassVar[type[ToolRunner]] = ToolRunner

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
        self._memory = memory
        self.providers = providers
        self.session = TurnSession(context, hooks, coordinator)
        self.monitor = TurnMonitor(
            self.session,
            interval=config.heartbeat_interval,
            on_cancel=self._announce_cancellation,
            on_heartbeat=self._emit_heartbeat,
        )
        tools = {} if tools is None else tools  # not `or`: an empty dict may be live, and fill during the turn
        self.model_caller = self.model_caller_type(
            self.session, config, self.monitor, memory, context=context, tools=tools
        )
        self.tool_runner = self.tool_runner_type(self.session, config, self.monitor, tools)
        self._started = time.monotonic()
        #: Model calls made so far, and the last text of the model.
        self.requests = 0
        self.text = ""
        #: Whether a tool was called since this was last reset.
        self.called_tools = False
        #: Whether the turn ended because of a cancellation.
        self.was_cancelled = False
        #: What a hook of a closing event raised to exit the program.
        self._exit: BaseException | None = None

    async def run(self, prompt: str) -> str:
        """Return the answer to `prompt`; raise what the provider or the context raises.

        Whatever happens, `prompt:complete`, `orchestrator:complete` and `execution:end` are emitted once, at the end.
        When a hook of these exits the program, the others are emitted before the exit is raised.
        """
        outcome = Outcome("", "error", "error")
        self.monitor.start()
        try:
            await self.session.emit(EXECUTION_START, {"prompt": prompt})
            outcome = await self._submit(prompt)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or self.session.is_cancelled:
                outcome = Outcome("", "cancelled", "cancelled")
            raise
        finally:
            await run_to_end(self._close, outcome)
            if self._exit is not None:
                raise self._exit
        return outcome.text

    # -- for loops to override --

    def choose(self) -> Choice:
        return choose_provider(self.providers, self.config.default_provider)

    async def before_request(self) -> None:
        """Prepare for the next model call."""

    def wants_more(self) -> bool:
        """Return whether to call the model again although it has answered."""
        return False

    def completion_facts(self) -> dict[str, Any]:
        """Return additional fields of `orchestrator:complete`."""
        return {}

    async def answer(self, choice: Choice) -> Outcome:
        return await self.converse(choice)

    # -- from prompt to answer --

    async def _submit(self, prompt: str) -> Outcome:
        attachments, self._memory.attachments = self._memory.attachments, []
        sent = {"prompt": prompt}
        verdict = await self.session.emit_and_apply(PROMPT_SUBMIT, sent)
        if verdict.action == "deny":
            return _denied(verdict.reason)
        _, submitted = changed_value(sent, verdict, "prompt")
        content: Any = str(submitted)
        if attachments:
            content = [*attachments, {"type": "text", "text": content}]
        await self.session.store({"role": "user", "content": content})
        choice = self.choose()
        if not choice.is_wanted:
            await self._report_substitute(choice)
        return await self.answer(choice)

    async def converse(self, choice: Choice) -> Outcome:
        """Call the model and run its tools until it has an answer, or may not continue."""
        guard = LoopGuard(self.config.loop_guard_warn, self.config.loop_guard_stop)
        iterations = 0
        while not self.session.is_cancelled:
            try:
                if self.config.is_limit_reached(iterations):
                    return await self._sum_up(choice)
                await self.before_request()
                reply = await self._call_model(choice)
            except Stopped:
                break
            except RequestDenied as denied:
                return await self._end_early(_denied(str(denied)))
            if self.session.is_cancelled_immediately:
                break
            iterations += 1
            if reply.calls:
                repetition = guard.record(self._guarded_steps(await self._call_tools(reply)))
                if repetition is not None:
                    await self._report_repetition(repetition)
                    if repetition.must_stop:
                        return await self._end_early(_repeated(repetition))
                continue
            if reply.message is not None:
                await self.session.store(reply.message)
            if not self.wants_more():
                return Outcome(reply.text, "success")
        await self.monitor.announce_cancellation()
        return await self._end_early(Outcome(self.text, "cancelled", "cancelled"))

    async def _call_model(self, choice: Choice, **facts: Any) -> Reply:
        number = self.first_iteration + self.requests
        self.requests += 1
        reply = await self.model_caller.call(choice, number, **facts)
        self.text = reply.text or self.text
        return reply

    async def _sum_up(self, choice: Choice) -> Outcome:
        """Let the model sum up at the limit of iterations; tools that it calls now are not run."""
        limit = self.config.max_iterations
        self.session.remind(
            _LIMIT_SOURCE,
            f"The limit of {limit} iterations is reached. Call no more tools: say what was done, what is left, and "
            "what should happen next.",
        )
        reply = await self._call_model(choice, max_reached=True)
        if reply.message is not None:
            not_run = [CallResult(call, f"Not run: the limit of {limit} iterations is reached") for call in reply.calls]
            await run_to_end(self._store_with_results, reply.message, not_run)
        notice = f"[Stopped: the limit of {limit} iterations was reached before the work was done.]"
        text = f"{reply.text}\n\n{notice}" if reply.text else notice
        return await self._end_early(Outcome(text, "incomplete", "max_iterations"))

    async def _end_early(self, outcome: Outcome) -> Outcome:
        """Return the outcome; a tool result gets an assistant message behind it, for the next prompt to follow."""
        if self.session.last_stored is not None and self.session.last_stored.get("role") == "tool":
            text = outcome.text if outcome.status == "incomplete" else _INTERRUPTED
            await self.session.store({"role": "assistant", "content": text, "metadata": {"synthetic": True}})
        return outcome

    # -- tools --

    async def _call_tools(self, reply: Reply) -> list[CallResult]:
        """Store the message, run its calls and store their results; none is ever left without one."""
        assert reply.message is not None
        self.called_tools = True
        try:
            await self.session.store(reply.message)
            results = await self.tool_runner.run(reply.calls)
        except BaseException:
            if self.session.last_stored is reply.message:
                await run_to_end(self._store_interrupted, reply.calls)
            raise
        await run_to_end(self._store_results, results)
        await self.tool_runner.apply_injections()
        return results

    async def _store_with_results(self, message: dict[str, Any], results: Sequence[CallResult]) -> None:
        await self.session.add(message)
        await self._store_results(results)

    async def _store_interrupted(self, calls: Sequence[Call]) -> None:
        with suppress(Exception):  # it is logged; what interrupted the calls is raised, not this
            await self._store_results(self.tool_runner.results(calls))
        await self.session.add({"role": "assistant", "content": _INTERRUPTED, "metadata": {"synthetic": True}})
        await self.tool_runner.apply_injections()

    async def _store_results(self, results: Sequence[CallResult]) -> None:
        """Store results in call order; a context that refuses one gets the others, and its first error is raised.

        The next request is repaired then.
        """
        failure: Exception | None = None
        for result in results:
            try:
                await self.session.add(result.message)
            except Exception as error:
                logger.error("The result of call %s could not be stored: %s", result.call.id, error, exc_info=error)
                failure = failure or error
        if failure is not None:
            raise failure

    def _guarded_steps(self, results: Sequence[CallResult]) -> list[Step]:
        tools = self.tool_runner.tools
        return [
            Step(result.call.name, result.call.arguments, result.content)
            for result in results
            if getattr(tools.get(result.call.name), "polling", False) is not True
        ]

    # -- events --

    async def _report_substitute(self, choice: Choice) -> None:
        wanted = self.config.default_provider
        logger.warning("%s: provider '%s' is not mounted; '%s' answers instead", self.name, wanted, choice.name)
        facts = {"provider": choice.name, "requested": wanted, "reason": f"provider '{wanted}' is not mounted"}
        await self.session.emit(PROVIDER_RESOLVE, facts)

    async def _report_repetition(self, repetition: Repetition) -> None:
        await self.session.emit(
            LOOP_DETECTED,
            {
                "orchestrator": self.name,
                "action": "stop" if repetition.must_stop else "warn",
                "repetitions": repetition.times,
                "period": repetition.period,
                "tools": repetition.tools,
                "iteration": self.first_iteration + self.requests - 1,
            },
        )
        if not repetition.must_stop:
            self.session.remind(
                _GUARD_SOURCE,
                f"The last calls ({', '.join(repetition.tools)}) brought the same results {repetition.times} times. "
                "Repeating them changes nothing: try another way, or say what is missing.",
            )

    async def _emit_heartbeat(self, running: list[dict[str, Any]]) -> None:
        number = self.first_iteration + max(self.requests - 1, 0)
        facts = {"orchestrator": self.name, "iteration": number, "running": running}
        await self.session.emit(EXECUTION_HEARTBEAT, facts)

    async def _announce_cancellation(self) -> None:
        """Emit cancel:requested and call the token's callbacks, in bounded time."""

        async def announce() -> None:
            token = self.session.cancellation
            facts = {"orchestrator": self.name, "state": token.state, "turn_count": self.requests}
            await self.session.emit(CANCEL_REQUESTED, facts)
            await token.trigger_callbacks()

        try:
            await run_bounded(announce, timeout=_CALLBACK_SECONDS)
        except Exception as error:
            logger.error("The cancellation could not be announced everywhere: %s", error, exc_info=error)

    async def _close(self, outcome: Outcome) -> None:
        """Emit the events that close a turn, each once."""
        try:
            await self.monitor.announce_cancellation()
            text, status, reason = outcome
            if self.session.is_cancelled and status != "error":
                status = reason = "cancelled"
            self.was_cancelled = status == "cancelled"
            completed: dict[str, Any] = {"orchestrator": self.name, "turn_count": self.requests, "status": status}
            if reason is not None:
                completed["reason"] = reason
            preview = {"response_preview": text[:_PREVIEW], "length": len(text), "status": status}
            await self._emit_closing(PROMPT_COMPLETE, preview)
            await self._emit_closing(ORCHESTRATOR_COMPLETE, {**completed, **self.completion_facts()})
            ended = status if status in ("cancelled", "error") else "completed"
            duration = round((time.monotonic() - self._started) * 1000, 3)
            await self._emit_closing(EXECUTION_END, {"response": text, "status": ended, "duration_ms": duration})
            if status == "cancelled" and self.session.is_cancelled and not self.session.is_in_kernel_turn:
                facts = {"was_immediate": self.session.is_cancelled_immediately, "turn_count": self.requests}
                await self._emit_closing(CANCEL_COMPLETED, {"orchestrator": self.name, **facts})
        finally:
            await self.monitor.stop()

    async def _emit_closing(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event; when that fails, the others must still be emitted."""
        try:
            await self.session.emit_and_apply(event, data)
        except Exception as error:
            logger.error("Could not emit %s: %s", event, error, exc_info=error)
        except INTERRUPTS as error:
            self._exit = self._exit or error


def _denied(reason: str | None) -> Outcome:
    return Outcome(f"Operation denied: {reason or 'no reason given'}", "incomplete", "denied")


def _repeated(repetition: Repetition) -> Outcome:
    tools = ", ".join(repetition.tools)
    text = f"[Stopped: the same calls ({tools}) brought the same results {repetition.times} times in a row.]"
    return Outcome(text, "incomplete", "loop_detected")


class TurnLoop:
    """The orchestrator of one session; loops choose the types of turn and config."""

    turn_type: ClassVar[type[Turn]]
    config_type: ClassVar[type[LoopConfig]] = LoopConfig

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the config; raise ConfigError that names every wrong key."""
        self._config = read_config(self.config_type, config, module=self.turn_type.name)
        self._memory = LoopMemory()

    def attach(self, blocks: Iterable[dict[str, Any]]) -> None:
        """Put content blocks, such as images, before the text of the next prompt, in the same message."""
        self._memory.attachments.extend(blocks)

    def turn_parts(self) -> tuple[Any, ...]:
        """Return what the loop's turns take besides config and memory."""
        return ()

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: Mapping[str, Any],
        tools: Mapping[str, Any],
        hooks: Any,
        coordinator: Any = None,
        **_: Any,
    ) -> str:
        """Return the answer to `prompt`; raise what the provider raises, or RuntimeError when none is mounted."""
        turn = self.turn_type(
            self._config,
            self._memory,
            *self.turn_parts(),
            context=context,
            providers=providers,
            tools=tools,
            hooks=hooks,
            coordinator=coordinator,
        )
        return await turn.run(prompt)
