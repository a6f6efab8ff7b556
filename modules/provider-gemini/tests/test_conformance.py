"""The provider does what every provider does, over real HTTP through the official SDK."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from amplifier_core.llm_errors import InvalidToolCallError, ProviderUnavailableError, RateLimitError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_gemini import GeminiProvider
from amplifier_testing.llm import GeminiWire, Reply, Said, sse
from amplifier_testing.llm.conformance import ConformanceBase, MakeRig, ProviderConformance
from amplifier_testing.llm.faults import FaultConformance
from amplifier_testing.llm.rig import KEY, ask


class _Gemini(ConformanceBase):
    wire = GeminiWire()
    priced_model = "gemini-2.5-flash"

    def make(self, url: str, config: dict[str, Any], coordinator: MockCoordinator) -> GeminiProvider:
        return GeminiProvider({"base_url": url, **config}, coordinator, api_key=KEY)

    def messages_in(self, body: dict[str, Any]) -> list[Any]:
        return list(body["contents"])

    def prefix_in(self, body: dict[str, Any]) -> Any:
        return [body.get("systemInstruction"), body.get("tools")]


class TestProvider(_Gemini, ProviderConformance):
    """Inherit what every provider does."""

    def broken_call(self) -> Reply:
        """Say that a call was malformed, as the service does instead of sending it."""
        return Reply.stream([sse({"candidates": [{"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}]})])

    async def test_arguments_that_are_not_json(self, rig: MakeRig) -> None:
        """Gemini only says that a call was malformed; it is asked for once more, and then it is an error."""
        one = await rig(self.broken_call())
        with pytest.raises(InvalidToolCallError, match="MALFORMED_FUNCTION_CALL"):
            await one.provider.complete(ask(tools=("look",)))
        assert len(one.server.requests) == 2

    async def test_session_id_only_when_asked(  # type: ignore[override]  # pytest passes the fixture
        self, rig: MakeRig, caplog: pytest.LogCaptureFixture
    ) -> None:
        """There is no field for the session's id: it is never sent, and a wish for it is answered by a warning."""
        one = await rig(Said(), send_session_id=True)
        await one.provider.complete(ask())
        heard = one.server.requests[-1]
        assert str(one.coordinator.session_id) not in heard.body.decode() + str(heard.headers)
        assert "send_session_id" in caplog.text


class TestFaults(_Gemini, FaultConformance):
    """Inherit how every provider fails."""

    stream_errors: ClassVar = {
        "UNAVAILABLE": ProviderUnavailableError,
        "INTERNAL": ProviderUnavailableError,
        "RESOURCE_EXHAUSTED": RateLimitError,
    }
