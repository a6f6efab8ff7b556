"""What the tool answers, and what it keeps."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_todo.tool import LONGEST, MOST, TodoTool

READ = {"content": "Read", "activeForm": "Reading", "status": "completed"}
WRITE = {"content": "Write", "activeForm": "Writing", "status": "in_progress"}
TEST = {"content": "Test 🧪", "activeForm": "Testing", "status": "pending"}


@pytest.fixture
def coordinator() -> MockCoordinator:
    """Return a coordinator without a list."""
    made: MockCoordinator = MockCoordinator()
    return made


@pytest.fixture
def todo(coordinator: MockCoordinator) -> TodoTool:
    """Return the tool of that coordinator."""
    return TodoTool(coordinator)


async def test_create_keeps_the_list_and_shows_it(todo: TodoTool, coordinator: MockCoordinator) -> None:
    """The result has status, count and todos, and the state is the list."""
    result = await todo.execute({"action": "create", "todos": [READ, TEST]})
    assert result.success
    assert result.output == {"status": "created", "count": 2, "todos": [READ, TEST]}
    assert coordinator.todo_state == [READ, TEST]  # type: ignore[attr-defined]


async def test_update_replaces_the_list_and_counts(todo: TodoTool, coordinator: MockCoordinator) -> None:
    """The result has the numbers by status and not the list again."""
    await todo.execute({"action": "create", "todos": [TEST]})
    result = await todo.execute({"action": "update", "todos": [READ, WRITE, TEST]})
    assert result.output == {"status": "updated", "count": 3, "pending": 1, "in_progress": 1, "completed": 1}
    assert coordinator.todo_state == [READ, WRITE, TEST]  # type: ignore[attr-defined]


async def test_list_of_a_session_without_one_is_empty(todo: TodoTool) -> None:
    """Reading before anything was written is no error."""
    assert (await todo.execute({"action": "list"})).output == {"status": "listed", "count": 0, "todos": []}


async def test_list_shows_what_others_put_there(todo: TodoTool, coordinator: MockCoordinator) -> None:
    """The state may be set by another module; what is no todo in it is left out."""
    coordinator.todo_state = [READ, "nonsense"]  # type: ignore[attr-defined]
    assert (await todo.execute({"action": "list"})).output == {"status": "listed", "count": 1, "todos": [READ]}


async def test_an_empty_list_is_a_list(todo: TodoTool, coordinator: MockCoordinator) -> None:
    """The model may clear its list."""
    await todo.execute({"action": "create", "todos": [TEST]})
    result = await todo.execute({"action": "update", "todos": []})
    assert result.output == {"status": "updated", "count": 0, "pending": 0, "in_progress": 0, "completed": 0}
    assert coordinator.todo_state == []  # type: ignore[attr-defined]


async def test_neither_input_nor_output_leads_to_the_state(todo: TodoTool, coordinator: MockCoordinator) -> None:
    """Changing what was given or returned does not change the list."""
    given_list = [dict(TEST)]
    result = await todo.execute({"action": "create", "todos": given_list})
    given_list[0]["content"] = "Other"
    result.output["todos"][0]["content"] = "Another"
    assert coordinator.todo_state == [TEST]  # type: ignore[attr-defined]


async def test_two_sessions_have_two_lists() -> None:
    """A list belongs to its coordinator."""
    first, second = MockCoordinator(), MockCoordinator()
    await TodoTool(first).execute({"action": "create", "todos": [READ]})
    assert (await TodoTool(second).execute({"action": "list"})).output["count"] == 0


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        (None, "'todos' is missing"),
        ("Read", "'todos' must be a list of todos, got str"),
        ([READ, "Write"], "todos[1] must be an object"),
        ([{**READ, "content": " "}], "todos[0].content must be text that is not empty, got empty text"),
        ([{**READ, "content": 5}], "todos[0].content must be text that is not empty, got int"),
        ([{"content": "Read", "status": "pending"}], "todos[0].activeForm must be text that is not empty, got nothing"),
        (
            [READ, {**TEST, "status": "done"}],
            "todos[1].status must be one of pending, in_progress, completed, got 'done'",
        ),
        ([{"content": "a", "activeForm": "b"}], "todos[0].status must be one of"),
        ([{**READ, "status": ["pending"]}], "todos[0].status must be one of"),
        ([{**READ, "content": "x" * (LONGEST + 1)}], "at most 10000 characters"),
        ([READ] * (MOST + 1), "at most 1000 entries, got 1001"),
    ],
)
@pytest.mark.parametrize("action", ["create", "update"])
async def test_a_wrong_list_is_refused_as_a_whole(
    todo: TodoTool, coordinator: MockCoordinator, action: str, todos: Any, said: str
) -> None:
    """The entry is named, and the list stays as it was."""
    await todo.execute({"action": "create", "todos": [TEST]})
    result = await todo.execute({"action": action, "todos": todos})
    assert not result.success
    assert result.error is not None
    assert said in result.error["message"]
    assert result.error["code"] == "invalid_todos"
    assert result.output == result.error["message"]
    assert coordinator.todo_state == [TEST]  # type: ignore[attr-defined]


@pytest.mark.parametrize("action", [None, "delete", "Create", 7, ["list"]])
async def test_an_unknown_action_is_refused(todo: TodoTool, action: Any) -> None:
    """The three actions are named in the refusal."""
    result = await todo.execute({"action": action})
    assert not result.success
    assert result.error is not None
    assert result.error["code"] == "unknown_action"
    assert "create, update, list" in result.error["message"]


TODO = st.fixed_dictionaries(
    {
        "content": st.text(min_size=1).filter(str.strip),
        "activeForm": st.text(min_size=1).filter(str.strip),
        "status": st.sampled_from(["pending", "in_progress", "completed"]),
    }
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["create", "update"]), st.lists(TODO, max_size=8))
async def test_whatever_the_schema_lets_pass_is_kept(action: str, todos: list[dict[str, str]]) -> None:
    """Every list of proper todos comes back as it was given."""
    jsonschema.validate({"action": action, "todos": todos}, TodoTool.input_schema)
    todo = TodoTool(MockCoordinator())
    before = copy.deepcopy(todos)
    assert (await todo.execute({"action": action, "todos": todos})).success
    assert (await todo.execute({"action": "list"})).output == {
        "status": "listed",
        "count": len(before),
        "todos": before,
    }


@given(st.dictionaries(st.sampled_from(["action", "todos", "x"]), JUNK | st.lists(TODO | JUNK, max_size=3)))
async def test_no_input_raises(given_input: dict[str, Any]) -> None:
    """Whatever a model sends, there is a result, and a refusal leaves no list behind."""
    coordinator = MockCoordinator()
    result = await TodoTool(coordinator).execute(given_input)
    if not result.success:
        assert result.error is not None
        assert getattr(coordinator, "todo_state", None) is None
