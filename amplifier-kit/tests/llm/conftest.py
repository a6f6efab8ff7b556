"""Calls whose attempts end as a test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from amplifier_core.testing import EventRecorder
from amplifier_kit.llm.config import ProviderConfig
from amplifier_kit.llm.errors import OPENAI, Endpoint
from amplifier_kit.llm.request import Conversation, LLMCall
from amplifier_kit.llm.response import Answer
from amplifier_kit.llm.retry import Attempts
from amplifier_testing.llm.rig import ask


class Line:
    """What a call needs of its provider: settings, a separate account, and recorded events."""

    name = "p"

    def __init__(self, coordinator: Any = None, **settings: Any) -> None:
        self.coordinator = coordinator
        self.settings = ProviderConfig(**settings)
        self.endpoint = Endpoint("p", OPENAI)
        self.wire = OPENAI
        self.account = ("p", id(self), object())
        self.hooks = EventRecorder()

    def retries_for(self, error: Exception) -> int:
        return self.settings.max_retries

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        await self.hooks.emit(event, data)


@pytest.fixture
def make_line() -> Callable[..., Line]:
    """Give `make_line(coordinator=None, **settings)`: a provider's side of a call."""
    return Line


@pytest.fixture
def make_call() -> Callable[[Line, list[BaseException | None]], Awaitable[Answer]]:
    """Give `make_call(line, outcomes)`: each attempt takes the next outcome off the list, an error or a success."""

    async def call(line: Line, outcomes: list[BaseException | None]) -> Answer:
        async def attempt(answer: Answer) -> None:
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome
            await answer.say("text", "done")
            await answer.finish("stop")

        return await Attempts(cast(Any, line), LLMCall(ask(), Conversation((), ()), "m", True), "r").make(attempt)

    return call
