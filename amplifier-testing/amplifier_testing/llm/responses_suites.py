"""State what every provider of the Responses API does, as tests: inherit these before the suites of all providers."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.llm_errors import (
    ContentFilterError,
    InvalidRequestError,
    ProviderUnavailableError,
    RateLimitError,
)
from amplifier_testing.llm.conformance import MakeRig
from amplifier_testing.llm.reply import Reply
from amplifier_testing.llm.responses import ResponsesWire
from amplifier_testing.llm.rig import ask
from amplifier_testing.llm.script import Said, WireServer

__all__ = ["ResponsesAnswers", "ResponsesBase", "ResponsesChained", "ResponsesFaults"]


class ResponsesBase:
    """What the suites of a provider share, besides how it is made."""

    wire: ClassVar[WireServer] = ResponsesWire()
    #: Whether the service keeps the responses, and only what is new is sent.
    chaining: ClassVar[Any] = False

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        """Return the messages of a request."""
        messages: list[Any] = body["input"]
        return messages

    def prefix_in(self, body: dict[str, Any]) -> Any:
        """Return the tools and the system prompt."""
        return [body.get("tools"), body.get("instructions")]


class ResponsesAnswers(ResponsesBase):
    """For `ProviderConformance`, sending everything with each request."""

    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        return ResponsesWire().stream([ResponsesWire().function("c1", "look", '{"where": "zeb')])

    async def test_a_cut_answer_says_so(self, rig: MakeRig) -> None:
        """An answer at the limit of tokens that its request set is given, with the reason."""
        response = await (await rig(Said(finish="length"))).provider.complete(ask(max_output_tokens=20))
        assert (response.text, response.finish_reason) == ("Hello world", "length")


class ResponsesChained(ResponsesAnswers):
    """For `ProviderConformance`, continuing from responses that the service keeps."""

    chaining: ClassVar[Any] = "auto"

    async def test_thinking_goes_back_signed(self, rig: MakeRig) -> None:
        """Thinking stays at the service, which gets the id of the response to continue from."""
        one = await rig(Said((), ("Let me see.",), calls=(("c1", "look", {}),)), Said())
        response = await one.provider.complete(ask("x", tools=("look",)), extended_thinking=True)
        message = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
        result = {"role": "tool", "tool_call_id": "c1", "content": "a desk"}
        await one.provider.complete(ask("x", {**message, "metadata": response.metadata}, result, tools=("look",)))
        sent = one.server.bodies[-1]
        assert sent["previous_response_id"] == "resp_test"
        assert sent["input"] == [{"type": "function_call_output", "call_id": "c1", "output": "a desk"}]


class ResponsesFaults(ResponsesBase):
    """For `FaultConformance`."""

    stream_errors: ClassVar = {
        "server_error": ProviderUnavailableError,
        "rate_limit_exceeded": RateLimitError,
        "invalid_prompt": InvalidRequestError,
        "bio_policy": ContentFilterError,
    }
