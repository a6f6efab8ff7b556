"""Run tool calls so that every one of them gets a result, whatever happens.

Each call passes `tool:pre`, the check against the tool's schema, the policies of the session, the tool itself with its
timeout (`LoopConfig.timeout_of`), and `tool:post` or `tool:error`, all in one span. Injections of hooks wait until the
results are stored: nothing may come between a call and its result.

A person who is asked about a call may change its input. An approval system can only say yes or no, so it denies the
input it asked about and offers the capability `approval.edited_input`: a function that takes the id of the call and
returns the new input once, then None. The new input goes through hooks and policies again, so that a tool only ever
gets what was authorized last.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from amplifier_core.approval import WaitClock, measure_waits
from amplifier_core.data import clean, describe, reason
from amplifier_core.events import (
    APPROVAL_DENIED,
    APPROVAL_GRANTED,
    APPROVAL_REQUIRED,
    POLICY_VIOLATION,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.current_call import dispatched
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.monitor import TurnMonitor
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.session import TurnSession, changed_value
from amplifier_kit.engine.loop.tool_input import find_mismatch
from amplifier_kit.engine.pairing import tool_result
from amplifier_kit.engine.tasks import GRACE, TimedOut, cancel_and_wait, run_bounded, run_to_end, start
from amplifier_kit.guard.authorization import action_of, question_of
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

#: The capability that returns the input a person wants instead.
EDITED_INPUT: Final = "approval.edited_input"
#: How often a person may change the input of one call before it is denied.
MAX_EDITS: Final = 5

_APPROVALS: Final = (APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED)
_CANCELLED: Final = "the call was cancelled before it was done; it may or may not have taken effect"
_NOT_STARTED: Final = "the session was asked to stop before the call started; nothing was done"
_NO_REASON: Final = "no reason given"
_NOT_JSON: Final = "the input is not JSON in UTF-8, so that policies cannot judge it as it would run"


class CallResult(NamedTuple):
    """The result of one call; a synthetic one replaces a result that the tool never returned."""

    call: Call
    content: Any
    synthetic: bool = False

    @property
    def message(self) -> dict[str, Any]:
        metadata = {"synthetic": True} if self.synthetic else {}
        return tool_result(self.call.id, self.call.name, self.content, **metadata)


class CallFailed(Exception):
    """A call did not return its tool's result: `text` is for the model, `kind` and the message for the log.

    `source` names the hook that denied; None for the kernel and people, whose denials are events already.
    """

    def __init__(self, kind: str, message: str, text: str | None = None, source: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.text = text if text is not None else f"Denied: {message}"
        self.source = source

    @classmethod
    def by_hook(cls, message: str | None, source: str | None) -> CallFailed:
        message = message or _NO_REASON
        return cls("denied", message, f"Denied by hook: {message}", source)

    @classmethod
    def cancelled(cls, tool_name: str, message: str = _CANCELLED) -> CallFailed:
        return cls("cancelled", message, json.dumps({"error": message, "cancelled": True, "tool": tool_name}))


class RunningCall:
    """One call that is being run: its tool, the payload of its events, and how long it takes."""

    def __init__(self, call: Call, group: str, number: int, tool: Any, clock: WaitClock) -> None:
        self.call = call
        #: Position among the calls of one answer.
        self.number = number
        self.tool = tool
        #: Whether its closing event, tool:post or tool:error, was emitted.
        self.is_closed = False
        #: Whether approval:denied was emitted for its input.
        self.is_denial_reported = False
        self._clock = clock
        #: When approval:required was emitted, and what the clock showed then; None while no question is open.
        self._asked: tuple[float, int] | None = None
        #: Milliseconds of waiting that only approval events report.
        self._reported_ms: float = 0
        self._started = time.monotonic()
        self.payload: dict[str, Any] = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.id,
            "parallel_group_id": group,
        }

    @property
    def tool_name(self) -> str:
        """Return the name of the tool that runs, which a loop may have swapped."""
        return str(self.payload["tool_name"])

    @property
    def edits(self) -> int:
        return int(self.payload.get("edits", 0))

    def edit(self, tool_input: dict[str, Any]) -> None:
        """Replace the input; from now on the events say that it is not the model's."""
        self.payload |= {"tool_input": tool_input, "edits": self.edits + 1}

    def note_approval(self, event: str, data: Any) -> None:
        """Take note of an approval event about this call.

        The clock knows the questions of the kernel. A hook that asks a person itself only emits the events.
        """
        if event == APPROVAL_REQUIRED:
            self._asked = (time.monotonic(), self._clock.ms)
            return
        if event == APPROVAL_DENIED:
            self.is_denial_reported = True
        asked, self._asked = self._asked, None
        if asked is None or self._clock.ms != asked[1]:
            return
        waited = data.get("waited_ms") if isinstance(data, dict) else None
        if not isinstance(waited, int | float):
            waited = round((time.monotonic() - asked[0]) * 1000, 3)
        self._reported_ms += waited

    def times(self) -> dict[str, float]:
        """Return how long the call has taken and, not included in that, how long people were waited for."""
        waited = self._clock.ms + self._reported_ms
        took = max(0.0, (time.monotonic() - self._started) * 1000 - waited)
        return {"duration_ms": round(took, 3)} | ({"waited_ms": waited} if waited else {})


#: The call that runs here. Approval events name no call: those about a call are emitted in its context.
_running_call: ContextVar[RunningCall | None] = ContextVar("running_tool_call", default=None)


def _note_approval(event: str, data: Any) -> None:
    if (running := _running_call.get()) is not None:
        running.note_approval(event, data)


class ToolRunner:
    #: Whether the calls of one answer run in parallel.
    parallel: bool = True

    def __init__(
        self, session: TurnSession, config: LoopConfig, monitor: TurnMonitor, tools: Mapping[str, Any]
    ) -> None:
        self.session = session
        self.tools = tools
        self._config = config
        self._monitor = monitor
        self._deferred: list[tuple[int, HookResult, str]] = []
        self._results: dict[str, CallResult] = {}

    async def run(self, calls: Sequence[Call]) -> list[CallResult]:
        """Run calls and return one result for each, in order.

        When the session must stop at once, unfinished calls get results that say so. When the caller is cancelled, the
        calls are too, and `results` returns what was done by then.
        """
        group = str(uuid.uuid4())
        register = getattr(self.session.hooks, "register", None)  # a test double may only record events
        unregister = [register(event, _note_approval, name="tool-call-approvals") for event in _APPROVALS if register]
        try:
            if self.parallel:
                await self._run_in_parallel(calls, group)
            else:
                for number, call in enumerate(calls):
                    await self._run_in_parallel([call], group, number)
        finally:
            for remove in unregister:
                remove()
        results = self.results(calls)
        self._results.clear()  # the next calls may have the same ids
        return results

    def results(self, calls: Sequence[Call]) -> list[CallResult]:
        """Return one result per call; one without a result was cancelled."""
        cancelled = (CallResult(call, CallFailed.cancelled(call.name).text, True) for call in calls)
        return [self._results.get(result.call.id, result) for result in cancelled]

    async def apply_injections(self) -> None:
        """Apply what hooks injected meanwhile, in order of the calls; to be called when the results are stored."""
        deferred, self._deferred = sorted(self._deferred, key=lambda entry: entry[0]), []
        for _, verdict, event in deferred:
            await self.session.apply(verdict, event)

    async def _run_in_parallel(self, calls: Sequence[Call], group: str, first: int = 0) -> None:
        tasks = {start(self._run_one, call, group, number): call for number, call in enumerate(calls, first)}
        pending = set(tasks)
        stop = self._monitor.immediate_stop
        try:
            while pending and not stop.done():
                waiting: set[asyncio.Future[Any]] = {*pending, stop}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                pending = {task for task in pending if not task.done()}
            if pending:
                await self._monitor.announce_cancellation()
        finally:
            try:
                # Twice the grace: each of them may be waiting for its tool to end.
                await cancel_and_wait(*pending, grace=2 * GRACE)
            finally:
                for task, call in tasks.items():
                    if task.done() and not task.cancelled():
                        self._results[call.id] = _result_of(task, call)

    async def _run_one(self, call: Call, group: str, number: int) -> CallResult:
        with measure_waits() as clock, self.session.span(f"tool:{call.name}"):
            running = RunningCall(call, group, number, self.tools.get(call.name), clock)
            _running_call.set(running)  # in the context of this task
            try:
                return CallResult(call, await self._run_steps(running))
            except CallFailed as failure:
                await self._report_error(failure.kind, str(failure), running)
                return CallResult(call, failure.text, failure.kind == "cancelled")
            except asyncio.CancelledError:
                await run_to_end(self._report_error, "cancelled", _CANCELLED, running)
                raise
            except (Exception, SystemExit) as error:
                message = f"the call ended in {type(error).__name__}: {describe(error)}"
                logger.error("Call %s of tool '%s': %s", call.id, call.name, message, exc_info=error)
                await self._report_error(type(error).__name__, message, running)
                return CallResult(call, f"Error: {message}; it may or may not have taken effect", True)

    async def _run_steps(self, running: RunningCall) -> Any:
        """Return the content of the result; raise CallFailed when the tool returned none."""
        call = running.call
        if call.problem is not None:
            text = f"Error: the call of tool '{call.name}' was not run: {call.problem}"
            raise CallFailed("invalid_call", call.problem, text)
        self._check_not_cancelled(running)
        try:
            await self._select(running)
        except CallFailed as failure:
            await self._report_violation(failure, running)
            raise
        while not await self._authorize(running):
            pass
        try:
            content = await self._present(await self._execute(running), running)
        except CallFailed as failure:
            if running.edits and failure.kind != "cancelled":
                failure.text = _add_edit_note(failure.text, running)
            raise
        return _add_edit_note(content, running) if running.edits else content

    def _check_not_cancelled(self, running: RunningCall) -> None:
        if self.session.is_cancelled:
            raise CallFailed.cancelled(running.tool_name, _NOT_STARTED)

    # -- which tool, and may it run --

    async def _select(self, running: RunningCall) -> None:
        """Find the tool of a call, or raise CallFailed; loops that let hooks choose override this."""
        self.set_tool(running, running.call.name)

    def set_tool(self, running: RunningCall, name: str) -> None:
        """Let a call run the tool of that name; raise CallFailed when none is mounted."""
        tool = self.tools.get(name)
        if tool is None:
            text = f"Error: Tool '{name}' not found. Available tools: {', '.join(self.tools) or 'none'}"
            raise CallFailed("unknown_tool", f"no tool '{name}' is mounted", text)
        running.tool = tool
        running.payload["tool_name"] = name

    async def _authorize(self, running: RunningCall) -> bool:
        """Put the input to hooks and policies; return False when a person has changed it, so that it is put again.

        Raises CallFailed when it is denied.
        """
        running.is_denial_reported = False
        try:
            running.payload["tool_input"] = await self._pass_hooks(running)
            _check_input(running)
            await self._ask_policies(running)
        except CallFailed as denial:
            edited = await self._edited_input(running.call.id)
            if edited is None or self.session.is_cancelled:
                await self._report_violation(denial, running)
                raise
            if running.edits >= MAX_EDITS:
                raise CallFailed("denied", f"the input was changed more than {MAX_EDITS} times") from denial
            running.edit(edited)
            return False
        return True

    async def _pass_hooks(self, running: RunningCall) -> dict[str, Any]:
        """Return the input as hooks leave it; raise CallFailed when they deny."""
        verdict = await self._emit(TOOL_PRE, running.payload, running)
        if verdict.action == "deny":
            raise CallFailed.by_hook(verdict.reason, self.session.hook_that_denied(verdict))
        is_changed, tool_input = changed_value(running.payload, verdict, "tool_input")
        if is_changed and not isinstance(tool_input, dict):
            message = f"a hook changed the input to {type(tool_input).__name__}, which no tool takes"
            raise CallFailed.by_hook(message, "orchestrator")
        checked: dict[str, Any] = tool_input
        return checked

    async def _ask_policies(self, running: RunningCall) -> None:
        details = question_of(running.tool, running.payload)
        if clean(details["tool_input"]) != details["tool_input"]:
            # Policies see the JSON-clean copy. A rule about `secret` must not be passed by a name that only a file
            # system takes for it.
            raise CallFailed("denied", _NOT_JSON, source="orchestrator")
        action = action_of(running.tool, running.tool_name, running.payload["tool_input"])
        permission = await self.session.authorize(action, details)
        if not permission.granted:
            raise CallFailed("denied", permission.reason)

    async def _edited_input(self, call_id: str) -> dict[str, Any] | None:
        """Return a private copy of the input that a person wants instead, None when it was not changed.

        Raises CallFailed when the capability fails or returns anything but a JSON object.
        """
        find = self.session.capability(EDITED_INPUT)
        if find is None:
            return None
        try:
            edited = await maybe_await(find(call_id))
        except Exception as error:
            logger.error("The changed input of call %s is unavailable: %s", call_id, error, exc_info=error)
            raise CallFailed("denied", f"the changed input is unavailable: {error}") from error
        copy: dict[str, Any] | None = clean(edited)
        if edited is not None and (not isinstance(edited, dict) or copy != edited):
            raise CallFailed("denied", "the changed input is not a JSON object")
        return copy

    # -- the tool --

    async def _execute(self, running: RunningCall) -> ToolResult:
        """Return the tool's result; raise CallFailed when it has none, or may no longer start."""
        self._check_not_cancelled(running)
        name, call_id, cancellation = running.tool_name, running.call.id, self.session.cancellation
        timeout = self._config.timeout_of(name, running.tool)
        if cancellation is not None:
            cancellation.register_tool_start(call_id, _display_name(running))
        try:
            with self._monitor.running(call_id, name):
                returned = await run_bounded(self._call_tool, running, timeout=timeout)
        except TimedOut:
            message = f"timeout: tool '{name}' was not done after {timeout:g} s and was stopped"
            raise CallFailed("timeout", message, f"Error: {message}; it may or may not have taken effect") from None
        except Exception as error:
            message = reason(error)
            from amplifier_kit.guard.redaction.redactor import process_redactor

            # Handlers of the app print it, and a tool's error may quote a key.
            masked = process_redactor().scrub_text(message)
            logger.warning("Tool '%s' raised %s: %s", name, type(error).__name__, masked, exc_info=error)
            raise CallFailed(type(error).__name__, message, f"Error executing tool: {message}") from error
        finally:
            if cancellation is not None:
                cancellation.register_tool_complete(call_id)
        if isinstance(returned, ToolResult):
            return returned
        if returned is None:
            logger.warning("Tool '%s' returned None instead of a ToolResult: its execute() lacks a return", name)
        dump = getattr(returned, "model_dump", None)
        return ToolResult(output=dump() if callable(dump) else returned)

    async def _call_tool(self, running: RunningCall) -> Any:
        """Execute the tool in this task, by which the tool and its child sessions find their call."""
        ids = {key: running.payload[key] for key in ("tool_call_id", "parallel_group_id")}
        with self.session.acting("tools", running.tool_name), dispatched(self.session.coordinator, ids):
            return await maybe_await(running.tool.execute(running.payload["tool_input"]))

    async def _present(self, result: ToolResult, running: RunningCall) -> Any:
        """Show a result to the hooks and return the content for the model."""
        sent = {**running.payload, "result": result.safe_hook_presentation(), **running.times()}
        running.is_closed = True
        verdict = await self._emit(TOOL_POST, sent, running)
        if verdict.action == "deny":
            return f"Result withheld by hook: {verdict.reason or _NO_REASON}"
        is_changed, shown = changed_value(sent, verdict, "result")
        if is_changed:
            return json.dumps(shown, default=str) if isinstance(shown, dict | list) else str(shown)
        return _content_of(result)

    # -- events --

    async def _report_violation(self, failure: CallFailed, running: RunningCall) -> None:
        """Emit policy:violation for a denial that no event reports yet."""
        if failure.source is None or running.is_denial_reported:
            return
        report = {
            "action": action_of(running.tool, running.tool_name, running.payload["tool_input"]),
            "details": question_of(running.tool, running.payload),
            "source": failure.source,
            "reason": str(failure),
        }
        await self.session.emit(POLICY_VIOLATION, report)

    async def _report_error(self, kind: str, message: str, running: RunningCall) -> None:
        """Emit tool:error, unless the call has its closing event already."""
        if running.is_closed:
            return
        running.is_closed = True
        report = {key: running.payload[key] for key in ("tool_name", "tool_call_id", "parallel_group_id")}
        report["error"] = {"type": kind, "msg": message}
        report["status"] = kind if kind in ("denied", "timeout", "cancelled") else "error"
        await self._emit(TOOL_ERROR, {**report, **running.times()}, running)

    async def _emit(self, event: str, data: dict[str, Any], running: RunningCall) -> HookResult:
        """Emit an event about a call; injections wait, all other verdicts are applied now."""
        verdict = await self.session.emit(event, data)
        if verdict.action != "inject_context":
            return await self.session.apply(verdict, event)
        self._deferred.append((running.number, verdict, event))
        return HookResult(action="continue", data=verdict.data)


async def run_calls(coordinator: Any, calls: Sequence[Call], *, injects: bool = True) -> list[CallResult]:
    """Run calls outside of a turn, such as calls that waited for approval; return one result for each, in order.

    They pass hooks and policies as in a turn. Nothing is stored in the conversation but what hooks inject, at the end.
    A tool that runs calls of its own passes `injects=False`: nothing may come between its call and its result.
    """
    session = TurnSession(coordinator.get("context"), coordinator.hooks, coordinator)
    monitor = TurnMonitor(session)
    runner = ToolRunner(session, LoopConfig(), monitor, dict(coordinator.get("tools") or {}))
    monitor.start()
    try:
        results = await runner.run(calls)
        if injects:
            await runner.apply_injections()
    finally:
        await monitor.stop()
    return results


def _result_of(task: asyncio.Task[CallResult], call: Call) -> CallResult:
    """Return the result of a call whose task is done; one that reporting the call has prevented is replaced."""
    error = task.exception()
    if error is None:
        return task.result()
    logger.error("Call %s of tool '%s' failed: %s", call.id, call.name, reason(error), exc_info=error)
    return CallResult(call, f"Error executing tool: {reason(error)}", True)


def _check_input(running: RunningCall) -> None:
    """Raise CallFailed when the input does not match the schema of the tool; no person is asked about such a call."""
    mismatch = find_mismatch(running.tool, running.tool_name, running.payload["tool_input"])
    if mismatch is not None:
        what = f"the input of tool '{running.tool_name}' does not match its schema: {mismatch}"
        raise CallFailed("invalid_input", what, f"Error: {what}. The tool was not run; correct the input")


def _display_name(running: RunningCall) -> str:
    """Return the name that a person sees of a running tool: for a delegation, the agent's."""
    agent = running.payload["tool_input"].get("agent") if running.tool_name == "delegate" else None
    return agent if isinstance(agent, str) and agent else running.tool_name


def _add_edit_note(content: Any, running: RunningCall) -> Any:
    """Add what the tool was given to a result, since the model asked for something else."""
    given = json.dumps(running.payload["tool_input"], ensure_ascii=False)
    note = f"The user changed the input of this call before it ran: {given}"
    if isinstance(content, list):
        return [{"type": "text", "text": note}, *content]
    return f"{note}\n\n{content}"


def _content_of(result: ToolResult) -> Any:
    try:
        text = result.get_serialized_output()
    except (TypeError, ValueError):  # an output that is not JSON
        text = ToolResult(success=result.success, output=str(result.output)).get_serialized_output()
    if not result.content:
        return text
    blocks = [block.model_dump() for block in result.content]
    has_text = any(block.get("type") == "text" for block in blocks)
    return [{"type": "text", "text": text}, *blocks] if result.output is not None or not has_text else blocks
