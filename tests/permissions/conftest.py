"""A session in which every call has behaviours of its own: of hooks, policies, and whoever is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final

import pytest

from amplifier_core import AmplifierSession, HookResult, ToolResult
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_foundation.approvals.approvers import Approver, Approvers
from amplifier_testing.loop.fakes import ScriptedProvider, call, say

DEADLINE: Final = 0.002
RM: Final = "rm -rf x"


class Recorder:
    """Be a tool that notes what it was given."""

    description = "Note it."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, name: str, ran: list[tuple[str, dict[str, Any]]], action: str | None = None) -> None:
        self.name = name
        self._ran = ran
        if action is not None:
            self.action = action

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self._ran.append((self.name, input))
        return ToolResult(output="noted")


async def _do(what: str) -> None:
    """Fail in one of the ways there are."""
    if what == "late":
        await asyncio.Event().wait()
    errors: dict[str, Callable[[], BaseException]] = {
        "raise": lambda: RuntimeError("broken"),
        "cancelled": asyncio.CancelledError,
    }
    if what in errors:
        raise errors[what]()


class Seat:
    """Be one of several who are asked one after the other."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self._number = world, number

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> Any:
        return await self._world.answer(prompt, timeout, self._number)


class World:
    """Behave as the paths say, and note what happens."""

    def __init__(self, paths: Iterable[Any]) -> None:
        self.paths: dict[str, Any] = {f"c{number}": path for number, path in enumerate(paths)}
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        #: Who was asked about each call, in order, and who left it to whom.
        self.asked: dict[str, list[int]] = {}
        self.left: dict[str, list[tuple[str, str | None]]] = {}
        self._answered: dict[str, int] = {}
        self._edits: dict[str, Any] = {}
        self._calls: dict[Any, str] = {}

    def record(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))
        if event == "tool:pre":  # whoever is asked about it later is asked in this task
            self._calls[asyncio.current_task()] = data["tool_call_id"]
        if event == "approval:escalated":
            self.left.setdefault(self._calls[asyncio.current_task()], []).append((data["from"], data["to"]))

    def hook(self, slot: str) -> Callable[..., Any]:
        async def answer(event: str, data: dict[str, Any]) -> Any:
            what = getattr(self.paths[data["tool_call_id"]], slot)
            await _do(what)
            changed = {"command": what.removeprefix("modify "), "call": data["tool_call_id"]}
            answers: dict[str, Any] = {
                "continue": HookResult(),
                "deny": HookResult(action="deny", reason="a hook says no"),
                "inject": HookResult(action="inject_context", context_injection="note"),
                "nonsense": "allow",
                "no dict": {"action": "modify", "data": {**data, "tool_input": "rm"}},
            }
            if what.startswith("ask"):
                default = "allow" if what == "ask, or yes" else "deny"
                return HookResult(action="ask_user", approval_timeout=DEADLINE, approval_default=default)
            if what.startswith("modify"):
                return HookResult(action="modify", data={**data, "tool_input": changed})
            return answers.get(what)

        return answer

    def policy(self, number: int) -> Callable[..., Any]:
        async def judge(action: str, details: dict[str, Any]) -> Any:
            said = self.paths[details["tool_call_id"]].policies[number]
            if isinstance(said, str):
                await _do(said)
                is_command, is_rm = action == "process.exec", details["tool_input"]["command"] == RM
                good = {"no commands": not is_command, "commands only": is_command, "no rm": not is_rm}
                if said in good:
                    return "allow" if good[said] else "deny"
            return said

        return judge

    async def on_required(self, event: str, data: dict[str, Any]) -> Any:
        what = self.paths[data["details"]["tool_call_id"]].required
        await _do(what)
        if what == "modify":  # who reads of the question cannot change what is decided on
            details = {**data["details"], "tool_input": {"command": "true"}}
            return HookResult(action="modify", data={**data, "details": details, "action": "tool.todo"})
        return {"deny": HookResult(action="deny", reason="quiet hours"), "nonsense": 7}.get(what)

    def on_selecting(self, event: str, data: dict[str, Any]) -> Any:
        swap = self.paths[data["tool_input"]["call"]].swap
        if swap == "deny":
            return HookResult(action="deny", reason="not this one")
        return HookResult(action="modify", data={**data, "tool": "other"}) if swap == "other" else None

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> Any:
        return await self.answer(prompt, timeout, 0)

    async def answer(self, prompt: str, timeout: float, seat: int) -> Any:
        """Answer as the one who is asked as the first, the second and so on about the same thing."""
        call_id = self._calls[asyncio.current_task()]
        self.asked.setdefault(call_id, []).append(seat)
        self._answered[call_id] = self._answered.get(call_id, 0) + (seat == 0)
        number, answers = self._answered[call_id] - 1, self.paths[call_id].answers
        answer = answers[number] if number < len(answers) else "Deny"
        chain = getattr(answer, "chain", (answer,))
        answer = chain[seat] if seat < len(chain) else "Escalate"
        edited = getattr(answer, "edited", None)
        if edited is not None:
            self._edits[call_id] = {"command": edited, "call": call_id}
            return "Deny: changed"
        if not isinstance(answer, str) or not answer.startswith("!"):
            return answer
        if answer == "!timeout":
            raise ApprovalTimeoutError("nobody")
        if answer == "!hang":
            if prompt.startswith("Allow this"):  # of a hook: the system keeps to the time it was given
                await asyncio.sleep(timeout)
                raise ApprovalTimeoutError("nobody")
            await asyncio.Event().wait()
        await _do(answer[1:])
        raise AssertionError(answer)

    async def run(self, loop: str, config: Any, *, people: int) -> list[dict[str, Any]]:
        """Run a turn in which the model makes all calls at once; return the results in the context.

        `config` is that of hooks-approval, None for a session without it. `people` is how many there are to be asked:
        none, one who is the approval system, or several approvers.
        """
        plan: dict[str, Any] = {
            "session": {
                "orchestrator": loop,
                "context": "context-simple",
                "hook_timeout": DEADLINE,
                "approval_timeout": DEADLINE,
            },
            "hooks": [] if config is None else [{"module": "hooks-approval", "config": config}],
        }
        asked = [(call_id, "shell", {"command": path.command, "call": call_id}) for call_id, path in self.paths.items()]
        session = AmplifierSession(plan, approval_system=self if people == 1 else None)
        at = session.coordinator
        if people > 1:
            Approvers([Approver(f"seat {number}", Seat(self, number)) for number in range(people)]).connect(at)
        at.hooks.register("*", self.record, priority=-2000)
        for slot, priority in (("first", -20), ("second", 5)):
            at.hooks.register("tool:pre", self.hook(slot), priority=priority)
        at.hooks.register("tool:pre", self.hook("gate"), priority=20, on_error="deny")
        at.hooks.register("approval:required", self.on_required, priority=20)
        at.hooks.register("tool:selecting", self.on_selecting)
        at.register_capability("approval.edited_input", lambda call_id: self._edits.pop(call_id, None))
        for number in range(3):
            at.register_policy(f"policy {number}", self.policy(number), number)
        async with session:
            await at.mount("providers", ScriptedProvider(call(*asked), say("done")), name="scripted")
            for tool in (Recorder("shell", self.ran, "process.exec"), Recorder("other", self.ran)):
                await at.mount("tools", tool)
            assert await session.execute("go") == "done"
            return [message for message in await at.get("context").get_messages() if message["role"] == "tool"]


@pytest.fixture
def world() -> Iterator[type[World]]:
    """Give `World(paths)`; the thousands of faults in it are not logged, which would take longer than all the rest."""
    logging.disable()
    yield World
    logging.disable(logging.NOTSET)
