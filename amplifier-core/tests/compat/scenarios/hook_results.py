"""process_hook_result(): what becomes of a hook's answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amplifier_core import ContextInjection, HookResult, ModuleCoordinator
from amplifier_core.approval import ApprovalTimeoutError

from .base import Stage, outcome, scenario


class Memory:
    """A context that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def add_message(self, message: Any) -> None:
        """Keep the message."""
        self.messages.append(message)


class Screen:
    """A display that keeps what it shows."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def show_message(self, *arguments: Any, **options: Any) -> None:
        """Keep the message."""
        self.shown.append([list(arguments), options])


class Person:
    """An approval system that gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def request_approval(self, *arguments: Any, **options: Any) -> Any:
        """Give the answer, or raise it."""
        self.asked.append([list(arguments), options])
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def hub_with(answer: Any = None, **limits: Any) -> tuple[ModuleCoordinator, Memory, Screen]:
    """Make a coordinator with a context, a display and, when an answer is given, a person."""
    session = SimpleNamespace(session_id="s", parent_id=None, config={"session": limits})
    hub = ModuleCoordinator(session, None if answer is None else Person(answer), Screen())
    memory = Memory()
    hub.mount_points["context"] = memory
    return hub, memory, hub.display_system


async def process(hub: ModuleCoordinator, result: Any, *rest: Any) -> Any:
    """Process a result as if `tool:post` had given it."""
    return await outcome(lambda: hub.process_hook_result(result, "tool:post", *(rest or ("hook-a",))))


def injection(text: str, **fields: Any) -> HookResult:
    """Make an injection."""
    return HookResult(action="inject_context", context_injection=text, **fields)


@scenario
async def continues(stage: Stage) -> Any:
    """Continue, modify and deny come back as the same object."""
    hub, memory, screen = hub_with()
    results = [HookResult(), HookResult(action="modify", data={"a": 1}), HookResult(action="deny", reason="no")]
    return [[await process(hub, given) is given for given in results], memory.messages, screen.shown]


@scenario
async def not_a_result(stage: Stage) -> Any:
    """A plain dict is refused."""
    hub, _, _ = hub_with()
    return str(await process(hub, {"action": "continue"})).split(":")[0]


@scenario
async def injects(stage: Stage) -> Any:
    """The text is stored with where it came from; the result is spent."""
    hub, memory, _ = hub_with()
    given = injection("remember", context_injection_role="user", data={"d": 1}, reason="r")
    result = await process(hub, given)
    return [result, result is given, memory.messages, hub._current_turn_injections]


@scenario
async def sanitised(stage: Stage) -> Any:
    """Control characters are taken out before anything is counted."""
    hub, memory, _ = hub_with()
    result = await process(hub, injection("a\x00b\x1b[31m\tc\n\r\x7f\x9fé\u2028"))
    return [result.action, [m["content"] for m in memory.messages], hub._current_turn_injections]


@scenario
async def ephemeral(stage: Stage) -> Any:
    """An ephemeral text is counted and passed on, not stored."""
    hub, memory, _ = hub_with()
    result = await process(hub, injection("for now\x00", ephemeral=True, append_to_last_tool_result=True))
    return [result, memory.messages, hub._current_turn_injections]


@scenario
async def too_long(stage: Stage) -> Any:
    """A text over the size limit is refused; nothing is shown, stored or counted."""
    hub, memory, screen = hub_with(injection_size_limit=10)
    exact = await process(hub, injection("x" * 10))
    over = await process(hub, injection("x" * 11, user_message="hello"))
    return [exact.action, over, len(memory.messages), screen.shown, hub._current_turn_injections]


@scenario
async def over_budget(stage: Stage) -> Any:
    """A text over the budget is a warning; it is stored all the same."""
    hub, memory, _ = hub_with(injection_budget_per_turn=5)
    await process(hub, injection("x" * 16))
    await process(hub, injection("y" * 16))
    said = ["Hook injection budget exceeded" in line for line in stage.warnings()]
    return [hub._current_turn_injections, len(memory.messages), said]


@scenario
async def several(stage: Stage) -> Any:
    """A list of injections wins over the scalar; each has its own role, name and life."""
    hub, memory, _ = hub_with()
    items = [
        ContextInjection(content="one which stays", role="user", hook_name="h1", event="e1"),
        ContextInjection(content="two for now", ephemeral=True, hook_name="h2", event="e2", role="assistant"),
        ContextInjection(content="\x00", hook_name="h3"),
    ]
    result = await process(hub, injection("scalar", context_injections=items, user_message="u"))
    return [result, memory.messages, hub._current_turn_injections]


@scenario
async def several_one_too_long(stage: Stage) -> Any:
    """All are checked before any is stored."""
    hub, memory, _ = hub_with(injection_size_limit=5)
    items = [ContextInjection(content="ok"), ContextInjection(content="too long")]
    result = await process(hub, injection("", context_injections=items))
    return [result, memory.messages, hub._current_turn_injections]


@scenario
async def empty_injection(stage: Stage) -> Any:
    """An empty text, and none."""
    hub, memory, _ = hub_with()
    empty, nothing = await process(hub, injection("")), await process(hub, HookResult(action="inject_context"))
    return [empty, nothing, memory.messages]


@scenario
async def no_context(stage: Stage) -> Any:
    """Without a context nothing is stored and nothing is said."""
    hub, _, _ = hub_with()
    hub.mount_points["context"] = None
    result = await process(hub, injection("text"))
    hub.mount_points["context"] = object()
    without_method = await process(hub, injection("text"))
    return [result.action, without_method.action, hub._current_turn_injections]


@scenario
async def failing_context(stage: Stage) -> Any:
    """What a context raises passes through; a sync one is fine."""
    hub, _, _ = hub_with()
    kept: list[Any] = []
    hub.mount_points["context"] = SimpleNamespace(add_message=lambda message: kept.append(message["content"]))
    first = await process(hub, injection("sync"))

    async def broken(message: Any) -> None:
        raise OSError("full")

    hub.mount_points["context"] = SimpleNamespace(add_message=broken)
    return [first.action, kept, await process(hub, injection("text"))]


@scenario
async def user_messages(stage: Stage) -> Any:
    """Shown with level and source, for every action but a question."""
    hub, _, screen = hub_with("Allow")
    await process(hub, HookResult(user_message="plain"))
    await process(hub, HookResult(action="deny", user_message="denied", user_message_level="error"))
    await process(hub, HookResult(user_message="named", user_message_source="src", user_message_level="warning"))
    await process(hub, injection("t", user_message="with injection"))
    await process(hub, HookResult(action="ask_user", user_message="not shown"))
    await process(hub, HookResult(user_message=""))
    await outcome(lambda: hub.process_hook_result(HookResult(user_message="anonymous"), "x:y"))
    return screen.shown


@scenario
async def failing_display(stage: Stage) -> Any:
    """A display that raises, and no display."""
    hub, _, _ = hub_with()

    def broken(*arguments: Any) -> None:
        raise OSError("dark")

    hub.display_system = SimpleNamespace(show_message=broken)
    first = await process(hub, HookResult(user_message="m"))
    hub.display_system = None
    return [first, await process(hub, HookResult(user_message="m"))]


@scenario
async def asks(stage: Stage) -> Any:
    """What the person is asked, with and without the defaults."""
    hub, memory, _ = hub_with("Allow")
    first = await process(hub, HookResult(action="ask_user"))
    second = await process(
        hub,
        HookResult(
            action="ask_user",
            approval_prompt="p?",
            approval_options=["A", "B"],
            approval_timeout=5,
            approval_default="allow",
            context_injection="t",
        ),
    )
    return [first, second.action, hub.approval_system.asked, memory.messages]


@scenario
async def answers(stage: Stage) -> Any:
    """Each answer a person can give."""
    said: list[Any] = [
        "Allow",
        "allow once",
        "ALLOW ALWAYS",
        "Deny",
        "deny",
        "no",
        "",
        "maybe",
        "allowed",
        " allow ",
        "yes",
    ]
    results = []
    for answer in said:
        hub, _, _ = hub_with(answer)
        result = await process(hub, HookResult(action="ask_user", approval_prompt="p?"))
        results.append([answer, result.action, result.reason])
    return results


@scenario
async def unexpected_answer_is_logged(stage: Stage) -> Any:
    """An answer that was not among the options."""
    hub, _, _ = hub_with("maybe")
    await process(hub, HookResult(action="ask_user"))
    return [line.split(" ")[0] for line in stage.warnings()]


@scenario
async def answers_that_are_no_text(stage: Stage) -> Any:
    """True, a number, a list."""
    said = []
    for answer in (True, 5, ["Allow"]):
        hub, _, _ = hub_with(answer)
        said.append(str(await process(hub, HookResult(action="ask_user"))).split(":")[0])
    return said


@scenario
async def nobody_to_ask(stage: Stage) -> Any:
    """Without an approval system."""
    hub, _, _ = hub_with()
    return await process(hub, HookResult(action="ask_user", approval_default="allow"))


@scenario
async def no_answer_in_time(stage: Stage) -> Any:
    """A timeout gives the default."""
    results = []
    for default in ("allow", "deny"):
        hub, _, _ = hub_with(ApprovalTimeoutError("late"))
        result = await process(hub, HookResult(action="ask_user", approval_prompt="p?", approval_default=default))
        results.append([result.action, result.reason])
    return results


@scenario
async def failing_approval(stage: Stage) -> Any:
    """Anything else an approval system raises passes through; a sync one is fine."""
    hub, _, _ = hub_with(OSError("line dead"))
    raised = await process(hub, HookResult(action="ask_user"))
    hub.approval_system = SimpleNamespace(request_approval=lambda *arguments: "Allow")
    return [raised, (await process(hub, HookResult(action="ask_user"))).action]


@scenario
async def long_prompt(stage: Stage) -> Any:
    """A long prompt is cut in the reason, not in the question."""
    hub, _, _ = hub_with("Deny")
    cut = await process(hub, HookResult(action="ask_user", approval_prompt="x" * 201))
    whole = await process(hub, HookResult(action="ask_user", approval_prompt="y" * 200))
    return [cut.reason, whole.reason, len(hub.approval_system.asked[0][0][0])]
