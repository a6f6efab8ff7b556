"""Subclasses of the published context manager construct ours as they construct theirs."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import ConfigError
from amplifier_kit.engine.context.token_budget import ContextConfig
from amplifier_module_context_simple import SimpleContextManager


class Published(SimpleContextManager):
    """A context that keeps a file beside the messages."""

    def __init__(self, path: str, max_tokens: int, hooks: Any = None) -> None:
        super().__init__(max_tokens=max_tokens, compact_threshold=0.8, target_usage=0.4, hooks=hooks)
        self.path = path


async def test_config_keys_are_keywords() -> None:
    """The keys of the config are keywords of the constructor, and `max_tokens` may come first."""
    context = Published("x.jsonl", 9_000)
    assert (context.settings.max_tokens, context.settings.compact_threshold) == (9_000, 0.8)
    assert SimpleContextManager(5_000).settings.max_tokens == 5_000
    await context.add_message({"role": "user", "content": "Hello."})
    assert [message["content"] for message in await context.get_messages_for_request()] == ["Hello."]


async def test_events_go_to_the_hooks_that_are_given() -> None:
    """Without a coordinator, a compaction is announced through the hooks."""
    hooks, seen = MockCoordinator().hooks, []
    hooks.register("context:compaction", lambda event, data: seen.append(data["before_messages"]), name="test")
    context = Published("x.jsonl", 1_000, hooks)
    for number in range(60):
        await context.add_message({"role": "user", "content": f"{number} {'word ' * 30}"})
        await context.add_message({"role": "assistant", "content": "Yes. " * 30})
    await context.get_messages_for_request(token_budget=2_000)
    assert seen == [120]


def test_wrong_values_are_named() -> None:
    """A wrong value is an error that names its key, and settings exclude keys."""
    with pytest.raises(ConfigError, match="compact_threshold"):
        SimpleContextManager(compact_threshold="much")
    with pytest.raises(TypeError, match="not both"):
        SimpleContextManager(ContextConfig(), max_tokens=1)
