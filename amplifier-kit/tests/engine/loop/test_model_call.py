"""Model calls: payloads, injections, blocks, errors, and what the request is made of."""

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.content_models import TextContent
from amplifier_core.llm_errors import ContextLengthError, RateLimitError
from amplifier_core.message_models import ChatResponse, TextBlock, Usage
from amplifier_kit.engine.tasks import Crashed
from amplifier_kit.engine.usage import InvalidUsageError
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say


async def test_the_payloads_of_a_model_call(run: Any) -> None:
    """provider:request counts from 0; provider:response says usage as data and whether tools were called."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    await run(rig)
    assert [(d["provider"], d["iteration"]) for d in rig.data("provider:request")] == [("scripted", 0), ("scripted", 1)]
    first, second = rig.data("provider:response")
    assert (first["usage"]["total_tokens"], first["tool_calls"]) == (2, True)
    assert (second["usage"], second["tool_calls"]) == (None, False)


async def test_options_reach_the_provider(run: Any) -> None:
    """Extended thinking is an option of the call, reasoning effort a field of the request."""
    rig = LoopRig(say("done"))
    await run(rig, {"extended_thinking": True, "reasoning_effort": "high"})
    assert rig.provider.options == [{"extended_thinking": True}]
    assert rig.provider.requests[0].reasoning_effort == "high"
    other = LoopRig(say("done"))
    await run(other)
    assert other.provider.options == [{}]


async def test_ephemeral_injections_join_one_request(run: Any) -> None:
    """What a hook injects on provider:request is in that request and in no history."""
    rig = LoopRig(call(("1", "work", {})), say("done"), tools=[PlainTool("work")])
    fields = {"context_injection": "mind", "ephemeral": True, "append_to_last_tool_result": True}
    rig.on("provider:request", "inject_context", context_injection_role="user", **fields)
    await run(rig)
    first, second = rig.provider.requests
    assert [(m.role, m.content) for m in first.messages] == [("user", "hello"), ("user", "mind")]
    assert second.messages[-1].content == "work done\n\nmind"
    assert "mind" not in str(rig.context.messages)


async def test_injections_of_tool_events_join_the_next_request_alone(run: Any) -> None:
    """An ephemeral injection on tool:post is there once."""
    rig = LoopRig(
        call(("1", "work", {})), call(("2", "rest", {})), say("done"), tools=[PlainTool("work"), PlainTool("rest")]
    )

    def inject(_: str, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["tool_name"] != "work":
            return None
        return {"action": "inject_context", "context_injection": "well done", "ephemeral": True}

    rig.coordinator.hooks.register("tool:post", inject)
    await run(rig)
    assert ["well done" in str(request.messages) for request in rig.provider.requests] == [False, True, False]


async def test_a_rate_limit_is_reported_and_raised(run: Any) -> None:
    """An LLMError is reported with what a retry needs to know, and raised as it is."""
    error = RateLimitError("slow down", status_code=429)
    rig = LoopRig(error)
    with pytest.raises(RateLimitError) as caught:
        await run(rig)
    assert caught.value is error
    [reported] = rig.data("provider:error")
    assert (reported["provider"], reported["error"]) == ("scripted", {"type": "RateLimitError", "msg": "slow down"})
    assert (reported["retryable"], reported["status_code"]) == (True, 429)


async def test_usage_that_cannot_be_counted_is_reported_and_raised(run: Any) -> None:
    """An answer of a module that counts in words is an error of its provider, and no answer."""
    answer = say("done")
    counts: dict[str, Any] = {"input_tokens": "many", "output_tokens": 1, "total_tokens": 1}
    answer.usage = Usage.model_construct(None, **counts)
    rig = LoopRig(answer)
    with pytest.raises(InvalidUsageError, match="scripted: invalid usage: input_tokens is 'many'"):
        await run(rig)
    [reported] = rig.data("provider:error")
    assert reported["error"]["type"] == "InvalidUsageError"
    assert reported["retryable"] is False
    assert rig.data("provider:response") == []


async def test_other_errors_are_reported_without_retry_facts(run: Any) -> None:
    """An error of another kind is reported by type and message alone."""
    rig = LoopRig(OSError("socket gone"))
    with pytest.raises(OSError, match="socket gone"):
        await run(rig)
    [reported] = rig.data("provider:error")
    assert reported["error"] == {"type": "OSError", "msg": "socket gone"}
    assert "retryable" not in reported


async def test_a_provider_that_panics_is_reported(run: Any) -> None:
    """An exception that is no Exception closes the request in the log as any other error does, once."""

    class Panic(BaseException):
        pass

    rig = LoopRig(Panic("index out of bounds"))
    with pytest.raises(Crashed, match="Panic: index out of bounds"):
        await run(rig)
    [reported] = rig.data("provider:error")
    assert reported["error"] == {"type": "Crashed", "msg": "it ended in Panic: index out of bounds"}
    assert rig.data("orchestrator:complete")[0]["status"] == "error"


async def test_an_overflow_is_not_tried_again(run: Any) -> None:
    """A request that is too long is sent once."""
    rig = LoopRig(ContextLengthError("too long"))
    with pytest.raises(ContextLengthError):
        await run(rig)
    assert len(rig.provider.requests) == 1


async def test_the_error_carries_the_id_of_its_request(run: Any) -> None:
    """provider:error belongs to the call that the provider announced with llm:request."""
    rig = LoopRig()

    async def fail(_: Any) -> None:
        await rig.coordinator.hooks.emit("llm:request", {"provider": "scripted"})
        raise RateLimitError("slow down")

    rig.provider.answers = [fail]
    with pytest.raises(RateLimitError):
        await run(rig)
    assert rig.data("provider:error")[0]["request_id"] == rig.data("llm:request")[0]["request_id"]


async def test_blocks_are_reported_when_the_response_has_some(run: Any) -> None:
    """content_block events come from `content_blocks`, with place, block and usage."""

    class Streamed(ChatResponse):
        content_blocks: list[Any]

    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    response = Streamed(content=[TextBlock(text="hi")], usage=usage, content_blocks=[TextContent(text="hi")])
    rig = LoopRig(response)
    await run(rig)
    [start], [end] = rig.data("content_block:start"), rig.data("content_block:end")
    assert (start["block_type"], start["block_index"], start["total_blocks"]) == ("text", 0, 1)
    assert end["block"] == {"type": "text", "text": "hi"}
    assert end["usage"]["total_tokens"] == 3
    plain = LoopRig(say("hi"))
    await run(plain)
    assert plain.data("content_block:start") == []


async def test_the_tools_are_told_to_the_model(run: Any) -> None:
    """Every request names the tools; without tools it names none."""
    rig = LoopRig(say("done"), tools=[PlainTool("work")])
    await run(rig)
    assert [tool.name for tool in rig.provider.requests[0].tools or []] == ["work"]


async def test_a_substitute_provider_is_announced(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """When the configured provider is not mounted, the log and an event say who answers instead."""
    rig = LoopRig(say("done"))
    assert await run(rig, {"default_provider": "gone"}) == "done"
    [resolved] = rig.data("provider:resolve")
    assert (resolved["requested"], resolved["provider"]) == ("gone", "scripted")
    assert "'gone' is not mounted" in caplog.text


async def test_provider_without_parser(run: Any) -> None:
    """A provider that has no parse_tool_calls is read by the calls of its response."""
    rig = LoopRig(say("never"), tools=[PlainTool("work")])
    answers = iter([call(("1", "work", {})), say("done")])

    async def complete(_: Any) -> Any:
        return next(answers)

    rig.providers = {"old": SimpleNamespace(complete=complete)}
    assert await run(rig) == "done"
    assert rig.results() == ["work done"]
