"""The coordinator specification: how a session creates it, what it offers and what it is not."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader
from amplifier_core.hooks import HookRegistry


def test_session_creates_the_coordinator(bench: Any) -> None:
    """A session picks an id, keeps plan and loader, and sets the ids as default fields of events."""
    plan = bench.plan()
    session = AmplifierSession(plan)
    assert str(uuid.UUID(session.session_id)) == session.session_id
    assert session.parent_id is None
    assert session.config is plan is session.coordinator.config
    assert isinstance(session.loader, ModuleLoader)
    loader = ModuleLoader()
    child = AmplifierSession(plan, loader, "given", "parent")
    assert (child.session_id, child.parent_id, child.loader) == ("given", "parent", loader)
    assert child.coordinator.session is child


async def test_default_fields_reach_handlers_before_initialize(bench: Any) -> None:
    """The ids are on events as soon as the session object exists."""
    session = bench.session(session_id="early", parent_id="p")
    heard: list[dict[str, Any]] = []
    session.coordinator.hooks.register("x:y", lambda event, data: heard.append(data))
    await session.coordinator.hooks.emit("x:y", {})
    assert (heard[0]["session_id"], heard[0]["parent_id"]) == ("early", "p")


def test_coordinator_stores_infrastructure() -> None:
    """A coordinator needs nothing of a session but its ids and plan, and starts with empty mount points."""
    owner = SimpleNamespace(session_id="s", parent_id="p", config={"agents": {}}, loader=None)
    coordinator = ModuleCoordinator(session=owner)
    assert coordinator.session is owner
    assert (coordinator.session_id, coordinator.parent_id, coordinator.config) == ("s", "p", owner.config)
    assert isinstance(coordinator.hooks, HookRegistry)
    expected: dict[str, Any] = {"orchestrator": None, "context": None, "providers": {}, "tools": {}}
    expected["hooks"] = coordinator.hooks
    assert {point: coordinator.mount_points[point] for point in expected} == expected


@pytest.mark.parametrize("name", ["session_id", "parent_id", "config", "session"])
def test_infrastructure_is_read_only(bench: Any, name: str) -> None:
    """A module cannot give the session another identity or plan."""
    coordinator = bench.session().coordinator
    with pytest.raises(AttributeError):
        setattr(coordinator, name, "something else")


async def test_module_management_methods() -> None:
    """mount, get, register_capability and get_capability have the shapes of the specification."""
    coordinator = ModuleCoordinator()
    tool = SimpleNamespace(name="own-name")
    await coordinator.mount("tools", tool, name="given")
    await coordinator.mount("tools", tool)
    assert coordinator.get("tools", "given") is coordinator.get("tools")["own-name"] is tool
    coordinator.register_capability("a.thing", 7)
    assert coordinator.get_capability("a.thing") == 7


@pytest.mark.parametrize("name", ["execute", "initialize", "status", "run", "complete", "plan", "select_provider"])
def test_coordinator_is_no_session_and_no_god_object(name: str) -> None:
    """The coordinator offers infrastructure alone: neither the session's own calls nor decisions."""
    assert not hasattr(ModuleCoordinator(), name)


def test_coordinator_is_no_service_locator() -> None:
    """Nothing is there that nobody registered, and only known mount points can be asked for."""
    coordinator = ModuleCoordinator()
    assert coordinator.get_capability("any.service") is None
    with pytest.raises(ValueError, match=r"Unknown mount point: services"):
        coordinator.get("services")
