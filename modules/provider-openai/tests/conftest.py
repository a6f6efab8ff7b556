"""A key for every test, and no other part of the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_openai import OpenAIProvider
from amplifier_testing.llm import ModelServer, ResponsesWire, Said
from amplifier_testing.llm.rig import KEY, Rig

MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a key, and let nothing of the machine's own settings in."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment-0123456789")
    names = ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`: a provider whose server answers with these replies."""
    made: list[Rig] = []
    wire = ResponsesWire()
    with ModelServer() as server:

        async def build(*replies: Any, **config: Any) -> Rig:
            server.answers(*[wire.reply(item) if isinstance(item, Said) else item for item in replies])
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "max_retries": 2, "poll_interval": 0, "base_url": server.url}
            provider = OpenAIProvider({**quick, **config}, coordinator, api_key=KEY)
            made.append(Rig(provider, server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()
