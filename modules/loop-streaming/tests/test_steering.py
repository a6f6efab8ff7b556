"""Steering: what a person says while a turn runs reaches the model at its next step."""

from typing import Any

import pytest

from amplifier_module_loop_streaming import SteeringQueue, SteeringQueueFull, mount
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say


async def steered(rig: LoopRig, config: dict[str, Any] | None = None) -> Any:
    """Mount the loop on a rig and return its steering capability."""
    await rig.mount(mount, config)
    return rig.coordinator.get_capability("session.steer")


async def test_words_reach_the_model_at_the_next_step() -> None:
    """What is said during a tool becomes user messages before the next model call, in order, with events."""
    rig = LoopRig(say("x"))
    steer = await steered(rig)

    def work(_: Any) -> str:
        assert steer("also the tests", {"from": "repl"}) == 1
        assert steer("and the docs") == 2
        return "ok"

    rig.tools["work"] = PlainTool("work", work)
    rig.provider.answers = [call(("1", "work", {})), say("done")]
    assert await rig.run() == "done"
    said = [message.content for message in rig.provider.requests[1].messages[-2:]]
    assert said == ["also the tests", "and the docs"]
    first, second = rig.data("orchestrator:steering_injected")
    assert (first["orchestrator"], first["content"], first["iteration"]) == ("loop-streaming", "also the tests", 2)
    assert (first["queued_remaining"], first["metadata"]) == (1, {"from": "repl"})
    assert (second["queued_remaining"], second["metadata"]) == (0, {})
    assert rig.context.messages[3]["metadata"] == {"source": "steering", "from": "repl"}


async def test_words_during_the_last_answer_force_another_step() -> None:
    """A turn does not end while somebody waits to be heard."""
    rig = LoopRig()
    steer = await steered(rig)

    async def answer(_: Any) -> Any:
        if len(rig.provider.requests) == 1:
            steer("wait")
        return say(f"answer {len(rig.provider.requests)}")

    rig.provider.answers = [answer]
    assert await rig.run() == "answer 2"
    assert [message["role"] for message in rig.context.messages] == ["user", "assistant", "user", "assistant"]


async def test_a_turn_starts_with_an_empty_queue() -> None:
    """What was said before the turn is not carried into it."""
    rig = LoopRig(say("done"))
    steer = await steered(rig)
    steer("too early")
    await rig.run()
    assert "too early" not in str(rig.context.messages)


async def test_a_cancelled_turn_empties_the_queue() -> None:
    """What was said to a turn that was cancelled is not carried over."""
    rig = LoopRig()
    steer = await steered(rig)

    def stop(_: Any) -> None:
        steer("never mind")
        rig.coordinator.cancellation.request_graceful()

    rig.tools["stop"] = PlainTool("stop", stop)
    rig.provider.answers = [call(("1", "stop", {}))]
    await rig.run()
    assert len(steer) == 0
    assert "never mind" not in str(rig.context.messages)


@pytest.mark.parametrize("content", ["", "  \n", None, 7])
def test_blank_words_are_refused(content: Any) -> None:
    """There is nothing to say to the model."""
    with pytest.raises(ValueError, match=r"session\.steer: content must be a text that is not blank"):
        SteeringQueue()(content)


def test_the_queue_is_bounded() -> None:
    """A hundred wait; more is refused, in words, and what waits can be seen."""
    steer = SteeringQueue()
    for number in range(100):
        steer(f"word {number}")
    with pytest.raises(SteeringQueueFull, match="100 messages are queued already"):
        steer("one more")
    assert isinstance(SteeringQueueFull(), RuntimeError)
    assert (len(steer), steer.waiting[0], steer.waiting[-1]) == (100, "word 0", "word 99")


async def test_the_limit_of_iterations_counts_for_steering_too() -> None:
    """Somebody who keeps talking does not lift the limit."""
    rig = LoopRig()
    steer = await steered(rig, {"max_iterations": 3})

    async def answer(_: Any) -> Any:
        steer("go on")
        return say("hm")

    rig.provider.answers = [answer]
    await rig.run()
    assert len(rig.provider.requests) == 4
    assert rig.data("orchestrator:complete")[0]["reason"] == "max_iterations"
