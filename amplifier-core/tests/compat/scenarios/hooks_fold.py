"""emit(): how several handlers' answers become one."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from amplifier_core import HookRegistry, HookResult

from .base import Stage, outcome, scenario


def answering(registry: HookRegistry, *answers: Any, event: str = "x:y") -> None:
    """Register one handler per answer, h0, h1, ..., in that order."""
    for index, answer in enumerate(answers):

        async def handler(event: str, data: Any, answer: Any = answer) -> Any:
            return answer

        registry.register(event, handler, priority=index, name=f"h{index}")


async def folded(*answers: Any, data: Any = None) -> Any:
    """Emit to handlers that give these answers and return the result."""
    registry = HookRegistry()
    answering(registry, *answers)
    return await registry.emit("x:y", {"k": 1} if data is None else data)


GO = HookResult(action="continue", data={"dropped": 1}, user_message="dropped")
DENY = HookResult(action="deny", reason="no", user_message="said", data={"d": 1})
ASK = HookResult(action="ask_user", approval_prompt="may I?", approval_options=["Yes"], data={"a": 1})
INJECT = HookResult(action="inject_context", context_injection="text", context_injection_role="user", reason="r")
MODIFY = HookResult(action="modify", data={"new": True})


@scenario
async def no_handlers(stage: Stage) -> Any:
    """The data comes back as it is: no defaults, no timestamp."""
    registry = HookRegistry()
    registry.set_default_fields(session_id="s")
    return await registry.emit("x:y", {"k": (1, 2)})


@scenario
async def all_continue(stage: Stage) -> Any:
    """Defaults and a timestamp are in the returned data; what the handlers say beside the action is dropped."""
    registry = HookRegistry()
    registry.set_default_fields(session_id="s", k="default")
    answering(registry, GO, None)
    return await registry.emit("x:y", {"k": 1, "timestamp": "mine"})


@scenario
async def denied(stage: Stage) -> Any:
    """The first denial ends it and comes back whole."""
    registry = HookRegistry()
    answering(registry, GO, DENY)
    registry.register("x:y", lambda event, data: stage.notes.append("ran"), priority=50)
    return [await registry.emit("x:y", {}), stage.notes]


@scenario
async def modified(stage: Stage) -> Any:
    """Modified data replaces all of it, and the next handler sees it."""
    registry = HookRegistry()
    registry.set_default_fields(session_id="s")
    answering(registry, MODIFY)
    registry.register("x:y", lambda event, data: stage.notes.append(data), priority=50)
    return [await registry.emit("x:y", {"old": 1}), stage.notes]


@scenario
async def modify_chain(stage: Stage) -> Any:
    """Each modification builds on the one before."""
    registry = HookRegistry()

    async def add(event: str, data: dict[str, Any]) -> HookResult:
        data["n"] = data.get("n", 0) + 1
        return HookResult(action="modify", data=data)

    for index in range(3):
        registry.register("x:y", add, name=f"add{index}")
    return await registry.emit("x:y", {"n": 0})


@scenario
async def modify_without_data(stage: Stage) -> Any:
    """Modify with nothing changes nothing; with an empty dict it empties."""
    return [await folded(HookResult(action="modify")), await folded(HookResult(action="modify", data={}))]


@scenario
async def ask_wins_over_inject(stage: Stage) -> Any:
    """The first question wins over injections and modifications, in any order."""
    other = HookResult(action="ask_user", approval_prompt="second?")
    return [await folded(INJECT, ASK, other, MODIFY), await folded(other, ASK), await folded(MODIFY, INJECT, ASK)]


@scenario
async def deny_wins_over_ask(stage: Stage) -> Any:
    """A denial after a question."""
    return [await folded(ASK, DENY), await folded(INJECT, MODIFY, DENY)]


@scenario
async def inject_wins_over_modify(stage: Stage) -> Any:
    """An injection and a modification."""
    return [await folded(MODIFY, INJECT), await folded(INJECT, MODIFY)]


@scenario
async def answers_as_dicts(stage: Stage) -> Any:
    """Plain dicts are read as results."""
    dicts: list[Any] = [
        {"action": "deny", "reason": "dict"},
        {"data": {"x": 1}},
        {},
        {"action": "modify", "data": {"y": 2}, "unknown": 1},
        {"action": "inject_context", "context_injection": "t"},
    ]
    return [await folded(answer) for answer in dicts]


@scenario
async def unreadable_answers(stage: Stage) -> Any:
    """An answer that is no result is a denial."""
    wrong: list[Any] = [
        "yes",
        5,
        True,
        ["deny"],
        {"action": "explode"},
        {"action": "deny", "reason": 7},
        0,
        "",
        object(),
    ]
    return [[(r := await folded(answer)).action, r.reason] for answer in wrong]


@scenario
async def unreadable_answer_is_logged(stage: Stage) -> Any:
    """What the log says of an unreadable answer."""
    await folded("yes")
    return [line.split(" ")[0] for line in stage.warnings()]


@scenario
async def raising_handler(stage: Stage) -> Any:
    """A handler that raises is logged and passed over."""
    registry = HookRegistry()

    async def broken(event: str, data: Any) -> None:
        raise ValueError("oops")

    registry.register("x:y", broken, name="broken")
    answering(registry, MODIFY)
    return [await registry.emit("x:y", {}), stage.warnings()]


@scenario
async def handler_raises_cancelled(stage: Stage) -> Any:
    """A handler that raises CancelledError by itself is passed over."""
    registry = HookRegistry()

    async def cancelled(event: str, data: Any) -> None:
        raise asyncio.CancelledError

    registry.register("x:y", cancelled, name="cancelled")
    registry.register("x:y", lambda event, data: stage.notes.append("next"), priority=5)
    result = await outcome(lambda: registry.emit("x:y", {}))
    return [getattr(result, "action", result), stage.notes]


@scenario
async def isolation(stage: Stage) -> Any:
    """A handler's edits in place reach neither the next handler nor the caller nor the result."""
    registry = HookRegistry()

    async def vandal(event: str, data: dict[str, Any]) -> None:
        data["list"].append("vandal")
        data["nested"]["x"] = "vandal"
        data["extra"] = 1

    registry.register("x:y", vandal, name="vandal")
    registry.register("x:y", lambda event, data: stage.notes.append(data), priority=5)
    given = {"list": [1], "nested": {"x": 1}}
    result = await registry.emit("x:y", given)
    return [given, stage.notes, result.data]


@scenario
async def context_variables(stage: Stage) -> Any:
    """A handler sees the caller's context variables; its changes stay with it."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    registry = HookRegistry()

    async def handler(event: str, data: Any) -> None:
        stage.notes.append(variable.get())
        variable.set("handler")

    registry.register("x:y", handler, name="first")
    registry.register("x:y", handler, name="second")
    variable.set("caller")
    await registry.emit("x:y", {})
    return [stage.notes, variable.get()]


@scenario
async def outer_cancellation(stage: Stage) -> Any:
    """Cancelling the task that awaits emit cancels the running handler."""
    registry = HookRegistry()
    inside = asyncio.Event()

    async def slow(event: str, data: Any) -> None:
        inside.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            stage.notes.append("cancelled")
            raise

    async def emit() -> Any:
        return await registry.emit("x:y", {})

    registry.register("x:y", slow, name="slow")
    registry.register("x:y", lambda event, data: stage.notes.append("next"), priority=5)
    task = asyncio.create_task(emit())
    await inside.wait()
    task.cancel()
    said = await outcome(task)
    await asyncio.sleep(0.05)
    return [str(said).split(":")[0], stage.notes]


@scenario
async def emit_makes_a_coroutine(stage: Stage) -> Any:
    """What emit returns can be made a task, and several may run at once."""
    registry: Any = HookRegistry()
    answering(registry, GO)
    results = await asyncio.gather(*(asyncio.create_task(registry.emit("x:y", {"n": n})) for n in range(3)))
    return [asyncio.iscoroutine(made := registry.emit("x:y", {})), (await made).action, [r.data["n"] for r in results]]


@scenario
async def nested_emit(stage: Stage) -> Any:
    """A handler that emits another event."""
    registry: Any = HookRegistry()

    async def outer(event: str, data: Any) -> HookResult:
        inner = await registry.emit("in:ner", {"from": event})
        return HookResult(action="modify", data={"inner": inner.data["from"]})

    registry.register("out:er", outer, name="outer")
    registry.register("in:ner", lambda event, data: stage.notes.append(event))
    return [(await registry.emit("out:er", {})).data, stage.notes]


@scenario
async def result_is_one_of_the_models(stage: Stage) -> Any:
    """The type of what emit returns."""
    empty, answered = await HookRegistry().emit("x:y", {}), await folded(DENY)
    return [type(empty).__name__, isinstance(empty, HookResult), isinstance(answered, HookResult), answered == DENY]
