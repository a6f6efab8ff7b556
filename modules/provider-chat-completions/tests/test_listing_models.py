"""Models are listed although a connection that was kept from an earlier call is gone."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import AuthenticationError, LLMError, StreamError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_chat_completions import ChatCompletionsProvider


class _Listing(ChatCompletionsProvider):
    """Fail as often as told, then list one model."""

    failures: list[LLMError]

    async def fetch_models(self, client: Any) -> list[Any]:
        if self.failures:
            raise self.failures.pop(0)
        return [self.model_info("m")]


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([], None),
        ([StreamError("broken")], None),
        ([StreamError("broken"), StreamError("again")], StreamError),
        ([AuthenticationError("no")], AuthenticationError),
    ],
)
async def test_a_broken_connection_is_tried_once_more(
    failures: list[LLMError], expected: type[LLMError] | None
) -> None:
    """A service may close what it kept open at any time: that alone is worth another question, one."""
    provider = _Listing({}, MockCoordinator(), base_url="http://127.0.0.1:1/v1", api_key="k")
    provider.failures = list(failures)
    try:
        if expected is None:
            assert [model.id for model in await provider.list_models()] == ["m"]
        else:
            with pytest.raises(expected):
                await provider.list_models()
    finally:
        await provider.close()
