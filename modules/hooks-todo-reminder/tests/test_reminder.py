"""What the model is told, when, and how it reaches the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_module_hooks_todo_reminder import mount

HOOKS = [{"module": "hooks-todo-reminder"}]
TODOS = [
    {"content": "Read the config", "activeForm": "Reading the config", "status": "completed"},
    {"content": "Write the parser", "activeForm": "Writing the parser", "status": "in_progress"},
    {"content": "Test it", "activeForm": "Testing it", "status": "pending"},
]
LIST = "Todo list, 1 of 3 done:\n[x] Read the config\n[>] Writing the parser\n[ ] Test it"
NUDGE = "The tool `todo` has not been used recently."
LOOK: list[tuple[str, dict[str, Any]]] = [("look", {})]

MakeSession = Callable[..., Any]
RequestsOf = Callable[[Any], list[list[dict[str, Any]]]]


@pytest.fixture
def coordinator() -> MockCoordinator:
    """Return a coordinator that has the tool `todo`."""
    made: MockCoordinator = MockCoordinator()
    made.mount_points["tools"]["todo"] = MockTool("todo")
    return made


async def said(coordinator: MockCoordinator) -> str | None:
    """Return what is injected into the next request."""
    result = await coordinator.hooks.emit("provider:request", {"provider": "p", "iteration": 1})
    return result.context_injection


async def used(coordinator: MockCoordinator, *names: str, **fields: Any) -> None:
    """Report finished calls of tools the way the loops do."""
    for name in names:
        await coordinator.hooks.emit("tool:post", {"tool_name": name, "tool_input": {}, "result": {}, **fields})


async def test_the_list_is_glued_to_the_tool_result_of_that_request_only(
    make_session: MakeSession, requests_of: RequestsOf
) -> None:
    """After a tool ran, the list stands at the end of its result in the request, and nowhere in the ledger."""
    async with make_session([[("todo", {"todos": TODOS})], "done"], HOOKS) as session:
        await session.execute("go")
        asked = requests_of(session)
        assert [message["role"] for message in asked[0]] == ["user"]
        assert [message["role"] for message in asked[1]] == ["user", "assistant", "tool"]
        wrapped = f'<system-reminder source="hooks-todo-reminder">\n{LIST}\n</system-reminder>'
        assert asked[1][-1]["content"] == f'{{"status": "created", "count": 3}}\n\n{wrapped}'
        stored = str(await session.coordinator.get("context").get_messages())
        assert "system-reminder" not in stored


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
async def test_without_a_tool_result_the_reminder_is_a_message_of_the_configured_role(
    make_session: MakeSession, requests_of: RequestsOf, role: str
) -> None:
    """When the prompt is the last message, the list follows it, spoken by `inject_role`."""
    hooks = [{**HOOKS[0], "config": {"inject_role": role}}]
    async with make_session(["hello"], hooks) as session:
        session.coordinator.todo_state = TODOS
        await session.execute("go")
        [asked] = requests_of(session)
    assert [message["role"] for message in asked] == ["user", role]
    assert LIST in asked[-1]["content"]


async def test_the_model_is_reminded_after_so_many_other_calls(
    make_session: MakeSession, requests_of: RequestsOf
) -> None:
    """Three calls of other tools bring the reminder, a use of `todo` ends it, and three more bring it again."""
    todo = [("todo", {"todos": TODOS})]
    async with make_session([LOOK, LOOK * 2, todo, LOOK, LOOK * 2, "done"], HOOKS) as session:
        await session.execute("go")
        reminded = [NUDGE in str(asked[-1]["content"]) for asked in requests_of(session)]
    assert reminded == [False, False, True, False, False, True]


async def test_a_threshold_of_zero_always_reminds(coordinator: MockCoordinator) -> None:
    """With `recent_tool_threshold: 0` even the first request has the reminder, and the one after `todo` too."""
    await mount(coordinator, {"recent_tool_threshold": 0})
    assert NUDGE in str(await said(coordinator))
    await used(coordinator, "todo")
    assert NUDGE in str(await said(coordinator))


async def test_a_failed_use_is_no_use(coordinator: MockCoordinator) -> None:
    """A `todo` call that failed counts like any other call."""
    await mount(coordinator, {"recent_tool_threshold": 2})
    await used(coordinator, "look")
    await used(coordinator, "todo", result={"success": False, "output": "bad input", "error": None})
    assert NUDGE in str(await said(coordinator))


async def test_the_old_names_mean_nothing(coordinator: MockCoordinator) -> None:
    """A payload key `tool` and the tool `TodoWrite`, which no loop sends, do not count as a use of the list."""
    await mount(coordinator, {"recent_tool_threshold": 1})
    await coordinator.hooks.emit("tool:post", {"tool": "todo"})
    assert await said(coordinator) is None
    await used(coordinator, "TodoWrite")
    assert NUDGE in str(await said(coordinator))


async def test_a_tool_that_is_not_there_is_not_recommended(make_session: MakeSession, requests_of: RequestsOf) -> None:
    """Without the tool `todo` there is no reminder of it, however many other calls were made."""
    async with make_session([LOOK * 4, "done"], HOOKS, has_todo=False) as session:
        await session.execute("go")
        assert "system-reminder" not in str(requests_of(session))


async def test_nothing_to_say_is_said_with_nothing(coordinator: MockCoordinator) -> None:
    """Without a list and before the threshold the request is left alone."""
    await mount(coordinator, {})
    result = await coordinator.hooks.emit("provider:request", {"provider": "p"})
    assert (result.action, result.context_injection) == ("continue", None)


@pytest.mark.parametrize("state", [None, [], {}, "text", [1, None, "x"]], ids=str)
async def test_a_state_that_is_not_a_list_of_todos_is_ignored(coordinator: MockCoordinator, state: Any) -> None:
    """Whatever stands in `todo_state`, the request goes on."""
    await mount(coordinator, {})
    coordinator.todo_state = state  # type: ignore[attr-defined]
    assert await said(coordinator) is None


async def test_both_parts_in_one_reminder(coordinator: MockCoordinator) -> None:
    """A list that was not touched for a while comes with the reminder, in one wrapper."""
    await mount(coordinator, {})
    coordinator.todo_state = TODOS  # type: ignore[attr-defined]
    await used(coordinator, "look", "look", "look")
    text = str(await said(coordinator))
    assert text.index(LIST) < text.index(NUDGE)
    assert text.count("<system-reminder") == text.count("</system-reminder>") == 1


async def test_the_verdict_is_ephemeral_and_appended(coordinator: MockCoordinator) -> None:
    """The injection asks for the user role, this request only, and the last tool result."""
    await mount(coordinator, None)
    coordinator.todo_state = TODOS  # type: ignore[attr-defined]
    result = await coordinator.hooks.emit("provider:request", {"provider": "p"})
    assert (result.action, result.context_injection_role) == ("inject_context", "user")
    assert (result.ephemeral, result.append_to_last_tool_result) == (True, True)


async def test_two_sessions_do_not_share_a_count(coordinator: MockCoordinator) -> None:
    """Calls in one session do not bring the reminder into another."""
    other = MockCoordinator()
    other.mount_points["tools"]["todo"] = MockTool("todo")
    await mount(coordinator, {})
    await mount(other, {})
    await used(coordinator, "look", "look", "look")
    assert NUDGE in str(await said(coordinator))
    assert await said(other) is None


async def test_cleanup_takes_the_handlers_away(coordinator: MockCoordinator) -> None:
    """After the cleanup nothing is counted and nothing injected."""
    cleanup = await mount(coordinator, {})
    assert coordinator.hooks.list_handlers("provider:request") == {"provider:request": ["hooks-todo-reminder"]}
    assert coordinator.hooks.list_handlers("tool:post") == {"tool:post": ["hooks-todo-reminder-tracker"]}
    cleanup()
    assert coordinator.hooks.list_handlers("provider:request") == {"provider:request": []}
    assert coordinator.hooks.list_handlers("tool:post") == {"tool:post": []}


async def test_the_priority_decides_the_order(coordinator: MockCoordinator) -> None:
    """By default the handler runs at 10: after one at 9, before one at 11; the config moves it."""
    for priority in (9, 11):
        coordinator.hooks.register("provider:request", lambda e, d: None, priority=priority, name=f"at {priority}")
    cleanup = await mount(coordinator, {})
    names = coordinator.hooks.list_handlers("provider:request")["provider:request"]
    assert names == ["at 9", "hooks-todo-reminder", "at 11"]
    cleanup()
    await mount(coordinator, {"priority": 99})
    assert coordinator.hooks.list_handlers("provider:request")["provider:request"][-1] == "hooks-todo-reminder"


async def test_a_long_list_stays_within_the_sessions_limit(make_session: MakeSession, requests_of: RequestsOf) -> None:
    """An injection over `session.injection_size_limit` would be refused, so the text is cut, its wrapper kept."""
    todos = [{"content": f"Step {number} " + "x" * 100, "status": "pending"} for number in range(40)]
    async with make_session([[("todo", {"todos": todos})], "done"], HOOKS, injection_size_limit=600) as session:
        await session.execute("go")
        content = requests_of(session)[1][-1]["content"]
    reminder = content[content.index("<system-reminder") :]
    assert len(reminder) == 600
    assert "Step 0" in reminder
    assert reminder.endswith("\n(cut here)\n</system-reminder>")


async def test_a_limit_smaller_than_the_wrapper_means_silence(coordinator: MockCoordinator) -> None:
    """Where not even the wrapper fits, nothing is injected."""
    coordinator.config["session"]["injection_size_limit"] = 20
    await mount(coordinator, {"recent_tool_threshold": 0})
    assert await said(coordinator) is None
