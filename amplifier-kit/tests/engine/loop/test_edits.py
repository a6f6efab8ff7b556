"""Inputs that the person who was asked has changed: they go the whole way again, and nothing else ever runs."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.engine import tasks
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.model_call import LoopMemory
from amplifier_kit.engine.loop.tool_calls import EDITED_INPUT, MAX_EDITS
from amplifier_kit.engine.loop.turn import Turn
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say


class Editor:
    """Be an approval system whose person gives these answers in order: yes, no, or another input."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.edits: dict[str, Any] = {}
        self.asked = 0

    async def request_approval(self, *_: Any) -> str:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else "Deny"
        if isinstance(answer, str):
            return answer
        self.edits["1"] = answer
        return "Deny: changed"

    def edited_input(self, call_id: str) -> Any:
        return self.edits.pop(call_id, None)


def rig_for(tool: PlainTool, editor: Any, policy: Any = "ask", **arguments: Any) -> LoopRig:
    rig = LoopRig(call(("1", tool.name, arguments)), say("done"), tools=[tool], policy=policy)
    rig.coordinator.approval_system = editor
    rig.coordinator.register_capability(EDITED_INPUT, editor.edited_input)
    return rig


async def test_the_changed_input_is_what_runs(run: Any) -> None:
    """A changed input goes through hooks and policies again, runs, and the model reads that it was changed."""
    work = PlainTool("work")
    rig = rig_for(work, Editor({"x": 2}, "Allow"), x=1)
    assert await run(rig) == "done"
    assert work.inputs == [{"x": 2}]
    assert [(data["tool_input"], data.get("edits")) for data in rig.data("tool:pre")] == [
        ({"x": 1}, None),
        ({"x": 2}, 1),
    ]
    [denied], [granted], [after] = rig.data("approval:denied"), rig.data("approval:granted"), rig.data("tool:post")
    assert (denied["details"]["tool_input"], granted["details"]["tool_input"]) == ({"x": 1}, {"x": 2})
    assert (after["tool_input"], after["edits"]) == ({"x": 2}, 1)
    assert rig.data("tool:error") == []
    assert rig.results() == ['The user changed the input of this call before it ran: {"x": 2}\n\nwork done']


async def test_a_policy_may_refuse_the_changed_input(run: Any) -> None:
    """What a person has changed is no way around a policy."""
    work = PlainTool("work")

    def policy(_: str, details: Any) -> str:
        return "deny" if details["tool_input"].get("path") == "/etc" else "ask"

    rig = rig_for(work, Editor({"path": "/etc"}, "Allow"), policy, path="here")
    await run(rig)
    assert work.inputs == []
    assert len(rig.data("tool:error")) == 1
    assert rig.data("tool:error")[0]["status"] == "denied"


async def test_a_hook_may_refuse_or_change_the_changed_input(run: Any) -> None:
    """Hooks hear the changed input as they would hear the model's, and the policies what hooks make of it."""
    work = PlainTool("work")
    rig = rig_for(work, Editor({"x": 2}, "Allow"), x=1)

    def double(_: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"x": data["tool_input"]["x"] * 10}})

    rig.coordinator.hooks.register("tool:pre", double)
    await run(rig)
    assert work.inputs == [{"x": 20}]
    assert rig.data("approval:granted")[0]["details"]["tool_input"] == {"x": 20}


async def test_the_question_of_a_hook_may_be_answered_with_another_input(run: Any) -> None:
    """A hook that asks about a call hears of the changed one and asks again."""
    work = PlainTool("work")
    editor = Editor({"x": 2}, "Allow")
    rig = rig_for(work, editor, "allow", x=1)
    rig.on("tool:pre", "ask_user", approval_prompt="Run it?")
    await run(rig)
    assert work.inputs == [{"x": 2}]
    assert editor.asked == 2


async def test_a_loop_without_end_is_refused(run: Any) -> None:
    """An input that is changed again and again is refused in the end."""
    work = PlainTool("work")
    editor = Editor(*({"x": number} for number in range(100)))
    rig = rig_for(work, editor, x=-1)
    await run(rig)
    assert work.inputs == []
    assert editor.asked == MAX_EDITS + 1
    assert rig.results() == [f"Denied: the input was changed more than {MAX_EDITS} times"]
    assert rig.data("tool:error")[0]["status"] == "denied"


@pytest.mark.parametrize(
    "edited",
    ["rm", ["x"], 7, {1: "x"}, {"x": {1, 2}}, {"x": float("nan")}, {"x": "\ud800"}, {"x": (1, 2)}, True],
)
async def test_what_is_no_input_is_a_refusal(run: Any, edited: Any) -> None:
    """A capability that returns no JSON object refuses the call: the old input does not run in its place."""
    work = PlainTool("work")
    rig = rig_for(work, Editor("Deny", "Allow"), x=1)
    rig.coordinator.register_capability(EDITED_INPUT, lambda _: edited)
    await run(rig)
    assert work.inputs == []
    assert rig.results()[0].startswith("Denied: the changed input is")
    assert rig.data("tool:error")[0]["status"] == "denied"


@pytest.mark.parametrize("capability", [7, lambda: None, lambda _: 1 / 0])
async def test_a_capability_that_fails_is_a_refusal(run: Any, capability: Any) -> None:
    """What cannot be asked, or raises, refuses the call."""
    work = PlainTool("work")
    rig = rig_for(work, Editor("Deny", "Allow"), x=1)
    rig.coordinator.register_capability(EDITED_INPUT, capability)
    await run(rig)
    assert work.inputs == []
    assert rig.results()[0].startswith("Denied: the changed input is unavailable")


async def test_nobody_is_asked_for_a_change_of_what_is_allowed(run: Any) -> None:
    """A call that was allowed runs as it was allowed, whatever the capability would say."""
    work = PlainTool("work")
    rig = rig_for(work, Editor("Allow"), x=1)
    rig.coordinator.register_capability(EDITED_INPUT, lambda _: {"x": "something else"})
    await run(rig)
    assert work.inputs == [{"x": 1}]
    assert rig.results() == ["work done"]


async def test_the_input_cannot_be_changed_afterwards(run: Any) -> None:
    """The authorised input is a copy: a caller that keeps the object cannot change what runs."""
    held: dict[str, Any] = {"x": [2]}
    work = PlainTool("work")
    rig = rig_for(work, Editor(held, "Allow"), x=1)

    def sneak(*_: Any) -> None:
        held["x"].append("later")

    rig.coordinator.hooks.register("approval:granted", sneak)
    await run(rig)
    assert work.inputs == [{"x": [2]}]


async def test_a_stop_meanwhile_takes_no_change(run: Any) -> None:
    """A session that was asked to stop while the input was changed does not ask again."""
    work = PlainTool("work")
    editor = Editor({"x": 2}, "Allow")
    rig = rig_for(work, editor, x=1)

    async def stop(*_: Any) -> None:
        await rig.coordinator.request_cancel()

    rig.coordinator.hooks.register("approval:denied", stop)
    await run(rig)
    assert work.inputs == []
    assert editor.asked == 1


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        (OSError("disk on fire"), "Error executing tool: disk on fire"),
        (ToolResult(success=False, error={"message": "no such file"}), "no such file"),
    ],
)
async def test_a_failure_says_what_it_was_given(run: Any, returned: Any, content: str) -> None:
    """A tool that fails on a changed input is reported with that input."""

    def work(_: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    rig = rig_for(PlainTool("work", work), Editor({"x": 2}, "Allow"), x=1)
    await run(rig)
    assert rig.results() == [f'The user changed the input of this call before it ran: {{"x": 2}}\n\n{content}']


async def test_images_keep_their_blocks(run: Any) -> None:
    """The note stands before the blocks of a result that has some."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    tool = PlainTool("look", lambda _: ToolResult(output="a picture", content=[image]))
    rig = rig_for(tool, Editor({"x": 2}, "Allow"), x=1)
    await run(rig)
    [content] = rig.results()
    assert "changed the input" in content[0]["text"]
    assert content[2]["source"]["data"] == "aGk="


class _PlainTurn(Turn):
    name = "loop-plain"


_inputs = st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2)


@given(_inputs, st.lists(st.one_of(st.sampled_from(["Allow", "Deny"]), _inputs), max_size=8), st.integers(0, 3))
def test_a_tool_never_gets_what_was_not_authorised(first: dict[str, int], answers: list[Any], forbidden: int) -> None:
    """However a person answers and changes, a tool runs at most once, with exactly what was granted last."""

    def policy(_: str, details: Any) -> str | None:
        return "deny" if forbidden in details["tool_input"].values() else "ask"

    async def run() -> tuple[PlainTool, LoopRig]:
        work = PlainTool("work")
        rig = rig_for(work, Editor(*answers), policy, **first)
        parts: dict[str, Any] = {"context": rig.context, "providers": rig.providers, "tools": rig.tools}
        turn = _PlainTurn(
            LoopConfig(),
            LoopMemory(),
            hooks=rig.coordinator.hooks,
            coordinator=rig.coordinator,
            **parts,
        )
        await turn.run("hello")
        return work, rig

    work, rig = asyncio.run(run())
    granted = [json.dumps(data["details"]["tool_input"]) for data in rig.data("approval:granted")]
    assert [json.dumps(given) for given in work.inputs] == granted
    assert len(granted) <= 1
    assert all(forbidden not in given.values() for given in work.inputs)
    assert len(rig.results()) == 1
    assert len(rig.data("tool:post")) + len(rig.data("tool:error")) == 1
    assert not tasks._running
