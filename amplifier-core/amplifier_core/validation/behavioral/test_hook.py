"""Tests for every hook; `hook_cleanup` is the result of mount(), `coordinator` the one it was mounted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from amplifier_core.bounded_call import maybe_await

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator
    from amplifier_core.models import HookResult

_ACTIONS = ("continue", "deny", "modify", "inject_context", "ask_user")
_UNREADABLE = "Hook handler returned invalid response"


class HookBehaviorTests:
    """Inherit this in the tests of a hook module; every event it registered for is emitted once per test."""

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, hook_cleanup: Any, coordinator: ModuleCoordinator) -> None:
        """mount() leaves a working registry behind."""
        assert isinstance(coordinator.hooks.list_handlers(), dict)

    @pytest.mark.asyncio
    async def test_handler_returns_hook_result(self, hook_cleanup: Any, coordinator: ModuleCoordinator) -> None:
        """What the handlers answer can be read as a HookResult."""
        from amplifier_core.models import HookResult

        for event, result in await _emit_all(coordinator, {"test": True}):
            assert isinstance(result, HookResult), f"{event}: got {type(result).__name__}"
            assert result.reason != _UNREADABLE, f"{event}: a handler returned neither None, a HookResult nor its dict"

    @pytest.mark.asyncio
    async def test_hook_result_has_valid_action(self, hook_cleanup: Any, coordinator: ModuleCoordinator) -> None:
        """The action is one that the kernel knows."""
        for event, result in await _emit_all(coordinator, {"test": True}):
            assert result.action in _ACTIONS, f"{event}: unknown action {result.action!r}"

    @pytest.mark.asyncio
    async def test_cleanup_is_callable_if_present(self, hook_cleanup: Any) -> None:
        """What mount() returns is a cleanup, metadata or nothing."""
        assert hook_cleanup is None or isinstance(hook_cleanup, dict) or callable(hook_cleanup)

    @pytest.mark.asyncio
    async def test_cleanup_does_not_raise(self, hook_cleanup: Any) -> None:
        """The cleanup runs without an error."""
        if callable(hook_cleanup):
            try:
                await maybe_await(hook_cleanup())
            except Exception as error:
                pytest.fail(f"the cleanup that mount() returned raised {type(error).__name__}: {error}")

    @pytest.mark.asyncio
    async def test_handler_does_not_crash_on_malformed_data(
        self, hook_cleanup: Any, coordinator: ModuleCoordinator
    ) -> None:
        """An event without a payload still gets a verdict."""
        for event, result in await _emit_all(coordinator, None):
            assert result is not None, f"{event}: no verdict"

    @pytest.mark.asyncio
    async def test_handler_does_not_crash_on_empty_data(
        self, hook_cleanup: Any, coordinator: ModuleCoordinator
    ) -> None:
        """An event with an empty payload still gets a verdict."""
        for event, result in await _emit_all(coordinator, {}):
            assert result is not None, f"{event}: no verdict"


async def _emit_all(coordinator: ModuleCoordinator, data: Any) -> list[tuple[str, HookResult]]:
    """Emit `test:event` and every event that has a handler; return the verdicts."""
    registered = [event for event, names in coordinator.hooks.list_handlers().items() if names and event != "*"]
    return [(event, await coordinator.hooks.emit(event, data)) for event in dict.fromkeys(["test:event", *registered])]
