"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.llm_errors import (
    ContentFilterError,
    InvalidRequestError,
    ProviderUnavailableError,
    RateLimitError,
)
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.testing import Reply, ResponsesWire, Said
from amplifier_kit.llm.testing.conformance import ConformanceBase, MakeRig, ProviderConformance
from amplifier_kit.llm.testing.faults import FaultConformance
from amplifier_kit.llm.testing.rig import KEY, ask
from amplifier_module_provider_azure_openai import AzureOpenAIProvider


class _Azure(ConformanceBase):
    wire = ResponsesWire()
    priced_model = "gpt-5.4"
    #: Whether the service keeps the responses, and only what is new is sent.
    chaining: ClassVar[Any] = False

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> AzureOpenAIProvider:
        settings = {"azure_endpoint": url, "api_key": KEY, "enable_response_chaining": self.chaining, **config}
        return AzureOpenAIProvider(settings, coordinator)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        messages: list[Any] = body["input"]
        return messages

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("tools"), body.get("instructions")]


class _Answers(_Azure, ProviderConformance):
    def broken_call(self) -> Reply:
        """Cut the arguments short."""
        return ResponsesWire().stream([ResponsesWire().function("c1", "look", '{"where": "zeb')])

    async def test_a_cut_answer_says_so(self, rig: MakeRig) -> None:
        """An answer at the limit of tokens that its request set is given, with the reason."""
        response = await (await rig(Said(finish="length"))).provider.complete(ask(max_output_tokens=20))
        assert (response.text, response.finish_reason) == ("Hello world", "length")


class TestProvider(_Answers):
    """Inherit what every provider does, sending everything with each request."""


class TestChained(_Answers):
    """Inherit what every provider does, going on from responses that the service keeps."""

    chaining = "auto"

    async def test_thinking_goes_back_signed(self, rig: MakeRig) -> None:
        """Thinking stays where it is: at the service's, which is told what to go on from."""
        one = await rig(Said((), ("Let me see.",), calls=(("c1", "look", {}),)), Said())
        response = await one.provider.complete(ask("x", tools=("look",)), extended_thinking=True)
        message = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
        result = {"role": "tool", "tool_call_id": "c1", "content": "a desk"}
        await one.provider.complete(ask("x", {**message, "metadata": response.metadata}, result, tools=("look",)))
        sent = one.server.bodies[-1]
        assert sent["previous_response_id"] == "resp_test"
        assert sent["input"] == [{"type": "function_call_output", "call_id": "c1", "output": "a desk"}]


class TestFaults(_Azure, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {
        "server_error": ProviderUnavailableError,
        "rate_limit_exceeded": RateLimitError,
        "invalid_prompt": InvalidRequestError,
        "bio_policy": ContentFilterError,
    }
