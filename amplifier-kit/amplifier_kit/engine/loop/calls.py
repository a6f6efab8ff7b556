"""Run tool calls so that every one of them gets a result, whatever happens.

Each call passes `tool:pre`, the policies of the session, the tool itself under a deadline, and `tool:post` or
`tool:error`, all in one span. An input that the person who was asked has changed goes through hooks and policies again,
so that a tool is only ever given what was authorised last. Injections of hooks wait until the results are stored:
nothing may come between a call and its result.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from amplifier_core.bounded_call import DeadlineExceeded
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
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.edits import MOST_EDITS, EditError, edited_input, with_note
from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.watch import Watch
from amplifier_kit.engine.pairing import tool_result
from amplifier_kit.engine.tasks import GRACE, Stopped, cancel_and_wait, run_bounded, run_to_end, start
from amplifier_kit.engine.tool_dispatch import dispatched
from amplifier_kit.guard.tool_action import action_of, question_of

__all__ = ["CallRunner", "Finished", "Passage", "Refused", "Target", "cancelled_text", "denied_by_hook"]

logger = logging.getLogger(__name__)

_CANCELLED: Final = "the call was cancelled before it was done; it may or may not have taken effect"
_APPROVALS: Final = (APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED)
_NO_REASON: Final = "no reason given"
_UNJUDGED: Final = "the input holds what JSON in UTF-8 has no word for, so that it cannot be judged as it would run"
_NOT_STARTED: Final = "the session was asked to stop before the call started; nothing was done"


class Finished(NamedTuple):
    """Say what came of one call: the content of its result, and whether it stands for one that never came."""

    call: Call
    content: Any
    synthetic: bool = False

    @property
    def message(self) -> dict[str, Any]:
        """Return the message that answers the call."""
        metadata = {"synthetic": True} if self.synthetic else {}
        return tool_result(self.call.id, self.call.name, self.content, **metadata)


class Target(NamedTuple):
    """Name the tool that a call is for."""

    name: str
    tool: Any


class Approvals:
    """Follow the approval events of one call: how long a person was asked, and whether the answer was no."""

    __slots__ = ("_asked_at", "is_denied", "waited_ms")

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self.is_denied = False
        self.waited_ms = 0.0

    def note(self, event: str, data: Any) -> None:
        """Take in one event."""
        if event == APPROVAL_REQUIRED:
            self._asked_at = time.monotonic()
            return
        self.is_denied = event == APPROVAL_DENIED
        asked_at, self._asked_at = self._asked_at, None
        waited = data.get("waited_ms") if isinstance(data, dict) else None
        if isinstance(waited, int | float):
            self.waited_ms += waited
        elif asked_at is not None:
            self.waited_ms += (time.monotonic() - asked_at) * 1000


#: The approvals of the call that runs here. Approval events name no call: those of a call are emitted in its context.
_approvals: ContextVar[Approvals | None] = ContextVar("tool_call_approvals", default=None)


def _note_approval(event: str, data: Any) -> None:
    approvals = _approvals.get()
    if approvals is not None:
        approvals.note(event, data)


class Passage:
    """Follow one call on its way: its place among the others, what its events say, and since when."""

    __slots__ = ("approvals", "call", "is_closed", "number", "payload", "started")

    def __init__(self, call: Call, group: str, number: int) -> None:
        self.call = call
        self.number = number
        #: Whether its closing event, tool:post or tool:error, is out.
        self.is_closed = False
        self.started = time.monotonic()
        self.approvals = Approvals()
        self.payload: dict[str, Any] = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.id,
            "parallel_group_id": group,
        }

    def times(self) -> dict[str, float]:
        """Return how long the call has taken and, apart from that, how long a person was asked about it."""
        waited = self.approvals.waited_ms
        took = max(0.0, (time.monotonic() - self.started) * 1000 - waited)
        return {"duration_ms": round(took, 3)} | ({"waited_ms": round(waited, 3)} if waited else {})

    @property
    def edits(self) -> int:
        """Return how often a person has changed the input."""
        return int(self.payload.get("edits", 0))

    def take_edit(self, tool_input: dict[str, Any]) -> None:
        """Go on with another input; events say from now on that it is not the model's."""
        self.payload["tool_input"] = tool_input
        self.payload["edits"] = self.edits + 1


class Refused(Exception):
    """Carry why a call did not bring its tool's own result: what the model reads, and what the log says of it.

    `source` names who refused when neither the kernel nor a person did, whose refusals are events already.
    """

    def __init__(self, text: str, kind: str, message: str, source: str | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.kind = kind
        self.source = source


def denied_by_hook(verdict: HookResult, source: str | None = None) -> Refused:
    """Return the refusal that a hook's deny amounts to."""
    reason = verdict.reason or _NO_REASON
    return Refused(f"Denied by hook: {reason}", "denied", reason, source)


def cancelled_text(tool_name: str, error: str = _CANCELLED) -> str:
    """Return the content of a result for a call that was cancelled."""
    return json.dumps({"error": error, "cancelled": True, "tool": tool_name})


class CallRunner:
    """Run the tool calls of one turn."""

    #: Whether the calls of one answer run side by side.
    parallel: bool = True

    def __init__(self, host: Host, config: LoopConfig, watch: Watch, tools: Mapping[str, Any]) -> None:
        self.host = host
        self.tools = tools
        self._config = config
        self._watch = watch
        self._deferred: list[tuple[int, HookResult, str]] = []
        #: Results by call id, as far as the running group has them.
        self.finished: dict[str, Finished] = {}

    async def run(self, calls: Sequence[Call]) -> list[Finished]:
        """Run calls and return one result for each, in order.

        Stops early only when the session must stop at once; then the rest gets results that say so. When the caller is
        cancelled, the tasks are dropped and CancelledError carries on; `finished` tells what was done by then.
        """
        group = str(uuid.uuid4())
        self.finished.clear()
        stop_listening = self.host.listen(_APPROVALS, _note_approval, "tool-call-approvals")
        try:
            if self.parallel:
                await self._run_side_by_side(calls, group)
            else:
                for number, call in enumerate(calls):
                    await self._run_side_by_side([call], group, number)
        finally:
            stop_listening()
        return self.outcome(calls)

    def outcome(self, calls: Sequence[Call]) -> list[Finished]:
        """Return one result per call: what it brought, or that it was cancelled."""
        return [self.finished.get(call.id) or Finished(call, cancelled_text(call.name), True) for call in calls]

    async def settle(self) -> None:
        """Carry out what hooks injected meanwhile, in order of the calls; to be called when the results are stored."""
        deferred, self._deferred = sorted(self._deferred, key=lambda entry: entry[0]), []
        for _, verdict, event in deferred:
            await self.host.carry_out(verdict, event)

    async def _run_side_by_side(self, calls: Sequence[Call], group: str, first: int = 0) -> None:
        tasks = {start(self._run_one, call, group, number): call for number, call in enumerate(calls, first)}
        pending = set(tasks)
        stop = self._watch.at_once
        try:
            while pending and not stop.done():
                waiting: set[asyncio.Future[Any]] = {*pending, stop}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                pending = {task for task in pending if not task.done()}
            if pending:
                await self._watch.cancellation_told()
        finally:
            try:
                # Twice the grace: each of them may be waiting for a tool of its own to end.
                await cancel_and_wait(*pending, grace=2 * GRACE)
            finally:
                for task, call in tasks.items():
                    self._note(task, call)

    def _note(self, task: asyncio.Task[Finished], call: Call) -> None:
        if not task.done() or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.finished[call.id] = task.result()
            return
        logger.error("Call %s of tool '%s' could not be carried out: %r", call.id, call.name, error, exc_info=error)
        self.finished[call.id] = Finished(call, f"Error executing tool: {_message_of(error)}", True)

    async def _run_one(self, call: Call, group: str, number: int) -> Finished:
        passage = Passage(call, group, number)
        _approvals.set(passage.approvals)  # the task of this call has a context of its own
        with self.host.span(f"tool:{call.name}"):
            try:
                return Finished(call, await self._carry(passage))
            except Refused as refused:
                await self._report(refused.kind, str(refused), passage)
                return Finished(call, refused.text, refused.kind == "cancelled")
            except asyncio.CancelledError:
                await run_to_end(self._report, "cancelled", _CANCELLED, passage)
                raise
            except SystemExit as error:
                message = f"a hook or policy ended in SystemExit: {error}"
                await self._report("SystemExit", message, passage)
                return Finished(call, f"Error: {message}; the call may or may not have taken effect", True)

    async def _carry(self, passage: Passage) -> Any:
        """Take one call through all its steps and return the content of its result; raise Refused when it has none."""
        call = passage.call
        if call.problem is not None:
            text = f"Error: the call of tool '{call.name}' was not run: {call.problem}"
            raise Refused(text, "invalid_call", call.problem)
        if self.host.is_cancelled:
            raise Refused(cancelled_text(call.name, _NOT_STARTED), "cancelled", _NOT_STARTED)
        try:
            target = await self._select(passage)
        except Refused as refused:
            await self._report_violation(refused, Target(call.name, self.tools.get(call.name)), passage)
            raise
        passage.payload["tool_name"] = target.name
        while not await self._allowed(target, passage):
            pass
        try:
            content = await self._posted(await self._executed(target, passage), passage)
        except Refused as refused:
            if passage.edits and refused.kind != "cancelled":
                refused.text = with_note(refused.text, passage.payload["tool_input"])
            raise
        return with_note(content, passage.payload["tool_input"]) if passage.edits else content

    async def _allowed(self, target: Target, passage: Passage) -> bool:
        """Ask hooks and policies about the input as it is now; return False when a person has put another in its place.

        Raises Refused when the answer is no.
        """
        try:
            passage.payload["tool_input"] = await self._passed_hooks(passage)
            await self._permitted(target, passage.payload)
        except Refused as refused:
            try:
                edited = await edited_input(self.host, passage.call.id)
            except EditError as error:
                raise Refused(f"Denied: {error}", "denied", str(error)) from error
            if edited is None or self.host.is_cancelled:
                await self._report_violation(refused, target, passage)
                raise
            if passage.edits >= MOST_EDITS:
                reason = f"the input was changed more than {MOST_EDITS} times"
                raise Refused(f"Denied: {reason}", "denied", reason) from refused
            passage.take_edit(edited)
            return False
        return True

    async def _select(self, passage: Passage) -> Target:
        """Return the tool that a call is for, or raise Refused; loops with a say of their own in that override it."""
        return self.target(passage.call.name)

    def target(self, name: str) -> Target:
        """Return the tool of that name; raise Refused when there is none."""
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            text = f"Error: Tool '{name}' not found. Available tools: {known}"
            raise Refused(text, "unknown_tool", f"no tool '{name}' is mounted")
        return Target(name, tool)

    async def _passed_hooks(self, passage: Passage) -> dict[str, Any]:
        """Return the input as hooks leave it; raise Refused when they deny."""
        verdict = await self._heard(TOOL_PRE, passage.payload, passage)
        if verdict.action == "deny":
            raise denied_by_hook(verdict, self.host.denied_by(verdict))
        is_changed, tool_input = self.host.changed(passage.payload, verdict, "tool_input")
        if is_changed and not isinstance(tool_input, dict):
            reason = f"a hook changed the input to {type(tool_input).__name__}, which no tool takes"
            raise denied_by_hook(HookResult(action="deny", reason=reason), "orchestrator")
        checked: dict[str, Any] = tool_input
        return checked

    async def _permitted(self, target: Target, payload: dict[str, Any]) -> None:
        action = action_of(target.tool, target.name, payload["tool_input"])
        details = question_of(target.tool, payload)
        if not self.host.is_seen_as_it_is(details["tool_input"]):
            # A rule about `secret` must not be passed by a name that only a file system takes for it.
            raise Refused(f"Denied: {_UNJUDGED}", "denied", _UNJUDGED, "orchestrator")
        permission = await self.host.authorize(action, details)
        if not permission.granted:
            raise Refused(f"Denied: {permission.reason}", "denied", permission.reason)

    async def _report_violation(self, refused: Refused, target: Target, passage: Passage) -> None:
        """Emit policy:violation for a refusal that is in no event yet."""
        if refused.source is None or passage.approvals.is_denied:
            return
        report = {
            "action": action_of(target.tool, target.name, passage.payload["tool_input"]),
            "details": question_of(target.tool, passage.payload),
            "source": refused.source,
            "reason": str(refused),
        }
        await self.host.emit(POLICY_VIOLATION, report)

    async def _executed(self, target: Target, passage: Passage) -> ToolResult:
        """Return what the tool returns; raise Refused when it does not, or must not start any more."""
        if self.host.is_cancelled:
            raise Refused(cancelled_text(target.name, _NOT_STARTED), "cancelled", _NOT_STARTED)
        timeout = self._config.timeout_of(target.name, target.tool)
        call_id, payload, token = passage.call.id, passage.payload, self.host.token
        if token is not None:
            token.register_tool_start(call_id, _display_name(target.name, payload["tool_input"]))
        try:
            with self._watch.running(call_id, target.name):
                returned = await run_bounded(
                    self._dispatched, target, payload, timeout=timeout, stop=self._watch.at_once
                )
        except DeadlineExceeded:
            message = f"timeout: tool '{target.name}' was not done after {timeout:g} s and was stopped"
            raise Refused(f"Error: {message}; it may or may not have taken effect", "timeout", message) from None
        except Stopped:
            await self._watch.cancellation_told()
            raise Refused(cancelled_text(target.name), "cancelled", _CANCELLED) from None
        except Exception as error:
            message = _message_of(error)
            raise Refused(f"Error executing tool: {message}", type(error).__name__, message) from error
        finally:
            if token is not None:
                token.register_tool_complete(call_id)
        return returned if isinstance(returned, ToolResult) else _as_result(returned)

    async def _dispatched(self, target: Target, payload: dict[str, Any]) -> Any:
        """Execute the tool in this task, known by its call to whoever looks the task up, or one that it started."""
        call = {key: payload[key] for key in ("tool_call_id", "parallel_group_id")}
        with self.host.acting("tools", target.name), dispatched(self.host.coordinator, call):
            return await maybe_await(target.tool.execute(payload["tool_input"]))

    async def _posted(self, result: ToolResult, passage: Passage) -> Any:
        """Show a result to the hooks and return the content that the model reads."""
        sent = {**passage.payload, "result": result.safe_hook_presentation(), **passage.times()}
        passage.is_closed = True
        verdict = await self._heard(TOOL_POST, sent, passage)
        if verdict.action == "deny":
            return f"Result withheld by hook: {verdict.reason or _NO_REASON}"
        is_changed, shown = self.host.changed(sent, verdict, "result")
        if is_changed:
            return json.dumps(shown, default=str) if isinstance(shown, dict | list) else str(shown)
        return _content_of(result)

    async def _report(self, kind: str, message: str, passage: Passage) -> None:
        """Close a call that has no result of its tool, once; what hooks inject on that is kept too."""
        if passage.is_closed:
            return
        passage.is_closed = True
        told: dict[str, Any] = {key: passage.payload[key] for key in ("tool_name", "tool_call_id", "parallel_group_id")}
        told["error"] = {"type": kind, "msg": message}
        told["status"] = kind if kind in ("denied", "timeout", "cancelled") else "error"
        await self._heard(TOOL_ERROR, {**told, **passage.times()}, passage)

    async def _heard(self, event: str, data: dict[str, Any], passage: Passage) -> HookResult:
        """Emit an event of a call; injections wait, everything else is carried out now."""
        verdict = await self.host.emit(event, data)
        if verdict.action == "ask_user":
            return await self._ask(verdict, event, passage)
        if verdict.action != "inject_context":
            return await self.host.carry_out(verdict, event)
        self._deferred.append((passage.number, verdict, event))
        return HookResult(action="continue", data=verdict.data)

    async def _ask(self, verdict: HookResult, event: str, passage: Passage) -> HookResult:
        """Carry out a hook's question; a kernel whose approval system emits no events is timed from here."""
        waited, started = passage.approvals.waited_ms, time.monotonic()
        answer = await self.host.carry_out(verdict, event)
        if passage.approvals.waited_ms == waited:
            passage.approvals.waited_ms += (time.monotonic() - started) * 1000
        return answer


def _display_name(tool_name: str, tool_input: Mapping[str, Any]) -> str:
    """Return what a person sees of a running tool: for a delegation, the agent."""
    agent = tool_input.get("agent") if tool_name == "delegate" else None
    return agent if isinstance(agent, str) and agent else tool_name


def _as_result(returned: Any) -> ToolResult:
    """Take what is no ToolResult for the output of one."""
    dump = getattr(returned, "model_dump", None)
    return ToolResult(output=dump() if callable(dump) else returned)


def _content_of(result: ToolResult) -> Any:
    text = _text_of(result)
    if not result.content:
        return text
    blocks = [block.model_dump() for block in result.content]
    says_something = result.output is not None or not any(block.get("type") == "text" for block in blocks)
    return [{"type": "text", "text": text}, *blocks] if says_something else blocks


def _text_of(result: ToolResult) -> str:
    try:
        return result.get_serialized_output()
    except (TypeError, ValueError):  # an output that JSON has no word for
        return ToolResult(success=result.success, output=str(result.output)).get_serialized_output()


def _message_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # an exception that cannot even say what it is
        return type(error).__name__
