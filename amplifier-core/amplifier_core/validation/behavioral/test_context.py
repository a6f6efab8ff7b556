"""State what every context manager does; `context_module` is the one that the module mounts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from amplifier_core.bounded_call import maybe_await

_METHODS = ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear")


class ContextBehaviorTests:
    """Inherit this in the tests of a context module."""

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, context_module: Any) -> None:
        """mount() leaves a context manager behind."""
        assert context_module is not None

    @pytest.mark.asyncio
    async def test_context_has_required_methods(self, context_module: Any) -> None:
        """All five methods can be called."""
        missing = [name for name in _METHODS if not callable(getattr(context_module, name, None))]
        assert not missing, f"Context must have {', '.join(missing)}"

    @pytest.mark.asyncio
    async def test_message_round_trip(self, context_module: Any) -> None:
        """A message that goes in comes out with its role and content."""
        await context_module.add_message({"role": "user", "content": "Hello"})
        assert ("user", "Hello") in _told(await context_module.get_messages())

    @pytest.mark.asyncio
    async def test_multiple_messages(self, context_module: Any) -> None:
        """Messages come out in the order they went in."""
        said = [("user", "First"), ("assistant", "Response"), ("user", "Second")]
        for role, content in said:
            await context_module.add_message({"role": role, "content": content})
        assert [entry for entry in _told(await context_module.get_messages()) if entry in said] == said

    @pytest.mark.asyncio
    async def test_clear_removes_messages(self, context_module: Any) -> None:
        """After clear() no message is left."""
        await context_module.add_message({"role": "user", "content": "Test"})
        await context_module.clear()
        assert ("user", "Test") not in _told(await context_module.get_messages())

    @pytest.mark.asyncio
    async def test_get_messages_for_request_returns_messages(self, context_module: Any) -> None:
        """Messages reach the next request."""
        await context_module.add_message({"role": "user", "content": "Test"})
        messages = await context_module.get_messages_for_request()
        assert isinstance(messages, list), f"must return a list, got {type(messages).__name__}"
        assert len(messages) >= 1, "Should return added messages"

    @pytest.mark.asyncio
    async def test_internal_should_compact_returns_bool(self, context_module: Any) -> None:
        """_should_compact(), where there is one that takes no arguments, answers yes or no."""
        answer = await _call_without_arguments(context_module, "_should_compact")
        assert isinstance(answer, bool), "_should_compact() must return bool"

    @pytest.mark.asyncio
    async def test_internal_compact_does_not_crash(self, context_module: Any) -> None:
        """_compact_internal(), where there is one that takes no arguments, leaves a usable context."""
        await context_module.add_message({"role": "user", "content": "Test"})
        await _call_without_arguments(context_module, "_compact_internal")
        assert isinstance(await context_module.get_messages(), list)

    @pytest.mark.asyncio
    async def test_add_invalid_message_does_not_crash(self, context_module: Any) -> None:
        """A message without role and content is taken or refused, and the context stays usable."""
        try:
            await context_module.add_message({})
        except (ValueError, TypeError, KeyError):
            # A refusal.
            pass
        assert await context_module.get_messages() is not None

    @pytest.mark.asyncio
    async def test_get_messages_never_returns_none(self, context_module: Any) -> None:
        """An empty context gives an empty list."""
        assert await context_module.get_messages() is not None


def _told(messages: list[Any]) -> list[tuple[Any, Any]]:
    return [(message.get("role"), message.get("content")) for message in messages if isinstance(message, dict)]


async def _call_without_arguments(context: Any, name: str) -> Any:
    """Call a method that context managers may have; skip the test when this one has none that fits."""
    method = getattr(context, name, None)
    if not callable(method):
        pytest.skip(f"{name}() is not there")
    try:
        inspect.signature(method).bind()
    except TypeError:
        pytest.skip(f"{name}() takes arguments")
    return await maybe_await(method())
