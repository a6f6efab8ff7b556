"""Sessions with a loader of the app's own, from plain classes to the mocks that module authors use."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, MagicMock

from amplifier_core import AmplifierSession, ModuleLoader
from amplifier_core._session_init import initialize_session

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-x", "context": "context-x"},
    "providers": [{"module": "provider-x"}],
    "tools": [{"module": "tool-x", "config": {"n": 1}, "source": "somewhere"}],
}


async def test_mocked_coordinator() -> None:
    """initialize_session() works on a mocked coordinator, and reports what failed on it."""
    coordinator = MagicMock()
    coordinator.hooks.emit = AsyncMock()
    coordinator.get_capability.return_value = None
    coordinator.loader.load = AsyncMock(return_value=AsyncMock(return_value=None))
    coordinator.loader.get_on_session_ready_queue.return_value = []

    await initialize_session(PLAN, coordinator, "child", "parent")

    events = [call.args for call in coordinator.hooks.emit.await_args_list]
    assert [event for event, _ in events] == ["module:load_failed", "session:fork"]
    assert events[0][1]["error"] == "Provider mount did not install a new provider instance"
    coordinator.loader.clear_on_session_ready_queue.assert_called_once_with()


async def test_loader_is_made_when_there_is_none(make_plan: Any) -> None:
    """Without a loader on the coordinator, initialize_session() makes one and leaves it there."""
    session = AmplifierSession(make_plan())
    session.coordinator.loader = None

    await initialize_session(session.config, session.coordinator, "s", None)

    assert isinstance(session.coordinator.loader, ModuleLoader)
    assert session.coordinator.get("orchestrator") is not None
