"""loop-basic: what is its own."""

import pytest

from amplifier_core.message_models import ChatResponse
from amplifier_module_loop_basic import BasicLoop, mount
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say


async def test_iterations_count_from_zero() -> None:
    """The first model call of a turn is iteration 0."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    await rig.mount(mount)
    assert await rig.run() == "done"
    assert [data["iteration"] for data in rig.data("provider:request")] == [0, 1]


async def test_a_call_with_empty_arguments_runs() -> None:
    """A call that needs no arguments is a call like any other."""
    work = PlainTool("work")
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[work])
    await rig.mount(mount)
    await rig.run()
    assert work.inputs == [{}]


async def test_blocks_are_not_made_up() -> None:
    """Without content_blocks in the response there are no content_block events."""
    rig = LoopRig(say("done"))
    await rig.mount(mount)
    await rig.run()
    assert rig.names("content_block:start", "content_block:end") == []


async def test_a_config_that_makes_no_sense_stops_the_mount() -> None:
    """A wrong value is refused when the session starts, not in the middle of a turn."""
    rig = LoopRig()
    with pytest.raises(ValueError, match="'max_iterations' must be a positive whole number"):
        await rig.mount(mount, {"max_iterations": 0})


async def test_two_loops_do_not_share_memory() -> None:
    """What one session's loop has reported, another reports for itself."""
    hole = {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "tool": "t", "arguments": {}}]}
    for _ in range(2):
        rig = LoopRig(say("done"))
        rig.context.messages = [hole]
        await rig.mount(mount)
        await rig.run()
        assert len(rig.data("provider:tool_sequence_repaired")) == 1


async def test_extra_keywords_are_tolerated() -> None:
    """A kernel that passes more than it does today does not break the loop."""
    rig = LoopRig(say("done"))
    parts = {"context": rig.context, "providers": rig.providers, "tools": {}, "hooks": rig.coordinator.hooks}
    assert await BasicLoop().execute("hi", **parts, coordinator=rig.coordinator, turn_budget=3) == "done"


async def test_an_answer_without_text_is_empty() -> None:
    """A model that says nothing gives an empty answer, and nothing is stored for it."""
    rig = LoopRig(ChatResponse(content=[]))
    await rig.mount(mount)
    assert await rig.run() == ""
    assert [message["role"] for message in rig.context.messages] == ["user"]
