"""The same call means the same child: found when it is done, taken up when it was cut off."""

import asyncio
import json
from typing import Any

import pytest

from amplifier_foundation.children.errors import ChildBusyError, ChildUnknownError


def _starts(tree: Any, identity: str) -> int:
    """Return how often a child was begun or taken up."""
    return sum(event in ("session:start", "session:resume") for event, _ in tree.events(identity))


async def test_a_call_that_is_made_again_gets_what_its_child_has_done(tree: Any, spawn_in: Any) -> None:
    """In the same process, and in another one that took the parent up: the child is not run again."""
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    async with tree.run(saved=runtime.session_id) as resumed:
        later = await spawn_in(resumed)("explorer", "Look.", tool_call_id="call-1")
    for one in (again, later):
        assert {**one, "metadata": None} == {**first, "metadata": None}
        assert one["metadata"]["is_stored"] is True
    assert _starts(tree, first["session_id"]) == 1


async def test_a_call_id_that_is_used_again_in_a_later_turn_is_a_new_call(tree: Any, spawn_in: Any) -> None:
    """A provider that counts its ids from one again gets a new child, not the stored answer of the old one."""
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
        await runtime.execute("Again.")
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert again["session_id"] != first["session_id"]
    assert _starts(tree, again["session_id"]) == 1


async def test_a_call_is_known_by_what_the_loop_or_the_caller_says(tree: Any, spawn_in: Any) -> None:
    """Callers that run the child in a task of their own hand the id over; others need not."""
    async with tree.run() as runtime:
        spawn, coordinator = spawn_in(runtime), runtime.session.coordinator
        told = await spawn("explorer", "Look.", session_metadata={"tool_call_id": "call-1"})
        coordinator._tool_dispatch_contexts = {asyncio.current_task(): {"tool_call_id": "call-1"}}
        found = await spawn("explorer", "Look.")
        assert found["session_id"] == told["session_id"] == spawn.child_id("explorer", "call-1", "Look.")
        coordinator._tool_dispatch_contexts = {}
        other = await spawn("explorer", "Look.")
        assert other["session_id"] != told["session_id"]


async def test_two_tasks_of_one_call_are_two_children(tree: Any, spawn_in: Any) -> None:
    """A tool that starts the same agent twice for one call gets both answers, now and when it is called again."""
    async with tree.run() as runtime:
        spawn = spawn_in(runtime)
        tasks = ["Look here.", "Look there.", "Look up."]
        first = [await spawn("explorer", task, tool_call_id="call-1") for task in tasks]
        again = [await spawn("explorer", task, tool_call_id="call-1") for task in tasks]
    assert len({one["session_id"] for one in first}) == 3
    assert [one["session_id"] for one in again] == [one["session_id"] for one in first]
    assert all(one["metadata"]["is_stored"] for one in again)


@pytest.mark.parametrize("names", [("a.b", "a-b"), ("审查", "建筑"), ("x" * 90 + "1", "x" * 90 + "2")])
@pytest.mark.parametrize("is_at_once", [True, False])
async def test_agents_whose_names_look_alike_in_an_id_are_two_children(
    tree: Any, spawn_in: Any, names: tuple[str, str], is_at_once: bool
) -> None:
    """An id has a part of the agent's name: what tells two apart is the whole of it, now and when they come again."""
    tree.plan["agents"] = {name: {"description": name, "instruction": f"You are {name}."} for name in names}
    tree.script([], {name: [{"text": f"I am {name}."}] for name in names})
    async with tree.run() as runtime:
        asked = [(name, task) for task in ("Who?", "And?") for name in names]
        work = [spawn_in(runtime)(name, task, tool_call_id="call-1") for name, task in asked]
        first = await asyncio.gather(*work) if is_at_once else [await one for one in work]
        assert spawn_in(runtime).child_id(names[1], "call-1", "Who?") == first[1]["session_id"]
        again = [await spawn_in(runtime)(name, task, tool_call_id="call-1") for name, task in asked]
    assert [one["output"] for one in first] == [f"I am {name}." for name, _ in asked]
    assert len({one["session_id"] for one in first}) == 4
    assert [one["session_id"] for one in again] == [one["session_id"] for one in first]
    assert all(one["metadata"]["is_stored"] for one in again)


async def test_the_answer_of_one_agent_is_not_given_for_another(tree: Any, spawn_in: Any) -> None:
    """A given id that belongs to another agent is refused, whether that is at work or done."""
    given = {"sub_session_id": "0000000000000000-00000000000000aa_explorer", "tool_call_id": "call-1"}
    async with tree.run() as runtime:
        first = asyncio.ensure_future(spawn_in(runtime)("explorer", "Look.", **given))
        await asyncio.sleep(0)
        with pytest.raises(ChildBusyError, match="running another task"):
            await spawn_in(runtime)("builder", "Look.", **given)
        await first
        with pytest.raises(ChildUnknownError, match="of agent 'explorer', not of 'builder'"):
            await spawn_in(runtime)("builder", "Look.", **given)


@pytest.mark.parametrize("is_resumed", [True, False])
async def test_an_id_that_a_model_uses_again_in_a_later_turn_is_another_call(
    tree: Any, delegating: str, is_resumed: bool
) -> None:
    """Some models number their calls anew in every turn: the second one must not get the answer of the first."""
    tree.plan["tools"] = [{"module": delegating}]
    turn = [
        {"tool_calls": [{"name": "call", "arguments": {"agent": "explorer", "task": "Look."}, "id": "call_0"}]},
        {"text": "Done."},
    ]
    tree.script([*turn, *turn], {"explorer": [{"text": "Seen."}]})
    async with tree.run() as runtime:
        await runtime.execute("Once.")
        if not is_resumed:
            await runtime.execute("Twice.")
    if is_resumed:
        async with tree.run(saved=runtime.session_id) as later:
            await later.execute("Twice.")
    children = [path.name for path in tree.place.iterdir() if path.name.endswith("_explorer")]
    assert len(children) == 2
    assert [_starts(tree, child) for child in children] == [1, 1]


async def test_a_given_id_that_comes_again_with_another_task_is_the_next_task_of_that_child(
    tree: Any, spawn_in: Any
) -> None:
    """No answer is given for another question, and the child knows what was before."""
    given = {"sub_session_id": "0000000000000000-00000000000000aa_explorer", "tool_call_id": "call-1"}
    async with tree.run() as runtime:
        await spawn_in(runtime)("explorer", "Look here.", **given)
        other = await spawn_in(runtime)("explorer", "Look there.", **given)
    assert "is_stored" not in other["metadata"]
    assert [text for role, text in tree.said(other["session_id"]) if role == "user"] == ["Look here.", "Look there."]


async def test_a_child_that_was_cut_off_goes_on(tree: Any, spawn_in: Any, eventually: Any) -> None:
    """The same call takes it up with its history, says that it was interrupted, and counts its turns."""
    tree.script([], {"explorer": [{"delay_ms": 60_000, "text": "Late."}]})
    async with tree.run() as runtime:
        first = asyncio.ensure_future(spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1"))
        identity = spawn_in(runtime).child_id("explorer", "call-1")
        await eventually(lambda: (tree.place / identity / "transcript.jsonl").is_file())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        tree.script([], {"explorer": [{"expect": {"system_contains": "You explore."}, "text": "Seen."}]})
        record = tree.place / identity / "record.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "plan": _plan_of(tree, record)}))
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert (again["output"], again["session_id"]) == ("Seen.", identity)
    prompts = [text for role, text in tree.said(identity) if role == "user"]
    assert prompts[0] == "Look."
    assert prompts[1].startswith("You were interrupted")
    assert prompts[1].endswith("Look.")
    assert tree.metadata(identity)["turn_count"] == 2


def _plan_of(tree: Any, record: Any) -> Any:
    """Return the recorded plan with the provider as the tree has it now."""
    return {**json.loads(record.read_text())["plan"], "providers": tree.plan["providers"]}


async def test_an_answer_that_could_not_be_kept_is_found_in_the_conversation(tree: Any, spawn_in: Any) -> None:
    """A process that dies between the answer and the note of it costs no second run."""
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
        (tree.place / first["session_id"] / "results.json").unlink()
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert (again["output"], again["status"]) == (first["output"], "success")
    assert _starts(tree, first["session_id"]) == 1


async def test_what_stands_for_an_answer_that_was_lost_is_none(tree: Any, spawn_in: Any) -> None:
    """A child that was cut off in the middle of a tool call goes on, whatever its history was mended with."""
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "tool": "look", "arguments": {}}]}
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
        folder = tree.place / first["session_id"]
        (folder / "results.json").unlink()
        (folder / "events.jsonl").unlink()
        kept = (folder / "transcript.jsonl").read_text(encoding="utf-8").splitlines()[0]
        (folder / "transcript.jsonl").write_text(f"{kept}\n{json.dumps(call)}\n", encoding="utf-8")
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert (again["output"], "is_stored" in again["metadata"]) == ("The answer.", False)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"results": 3}', b'{"results": {"x": 1}}', b"\xff"])
async def test_a_damaged_note_of_results_is_no_result(tree: Any, spawn_in: Any, content: bytes) -> None:
    """The conversation decides then."""
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
        (tree.place / first["session_id"] / "results.json").write_bytes(content)
        again = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert again["output"] == first["output"]


async def test_a_folder_of_somebody_else_is_left_alone(tree: Any, spawn_in: Any) -> None:
    """An id that another session has already is refused."""
    async with tree.run() as other:
        await other.execute("Hello.")
    async with tree.run() as runtime:
        with pytest.raises(ChildUnknownError, match="not a child of session"):
            await spawn_in(runtime)("explorer", "Go.", sub_session_id=other.session_id)


async def test_a_child_that_was_only_begun_is_begun_again(tree: Any, spawn_in: Any) -> None:
    """A process that died before the child said anything leaves a folder, and nothing to go on from."""
    async with tree.run() as runtime:
        identity = spawn_in(runtime).child_id("explorer", "call-1")
        (tree.place / identity).mkdir(parents=True)
        result = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1")
    assert (result["session_id"], result["status"]) == (identity, "success")
