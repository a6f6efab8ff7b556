"""What a session is before anything is loaded."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookRegistry, ModuleCoordinator, ModuleLoader, SessionStatus
from amplifier_core import session as session_module

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-x", "context": "context-x"}}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (["x"], "Configuration must be a dict (a mount plan), got list"),
        ("plan.yaml", "Configuration must be a dict (a mount plan), got str"),
        ([], "Configuration must be a dict (a mount plan), got list"),
        ({"session": None}, "Configuration section 'session' must be a dict, got NoneType"),
        ({"session": ["loop"]}, "Configuration section 'session' must be a dict, got list"),
        ({"session": "loop"}, "Configuration section 'session' must be a dict, got str"),
    ],
)
def test_plan_of_another_type_is_refused(plan: Any, message: str) -> None:
    """A plan or session section that is no dict is a TypeError that says what it is instead."""
    with pytest.raises(TypeError) as caught:
        AmplifierSession(plan)

    assert str(caught.value) == message


def test_arguments_are_positional_in_the_published_order() -> None:
    """Config, loader, session id, parent id, approval, display and is_resumed can be given by position."""
    loader, approval, display = ModuleLoader(), object(), object()

    session = AmplifierSession(PLAN, loader, "child", "parent", approval, display, True)

    assert session.loader is loader
    assert (session.session_id, session.parent_id, session.is_resumed) == ("child", "parent", True)
    assert session.coordinator.approval_system is approval
    assert session.coordinator.display_system is display


def test_defaults() -> None:
    """Without arguments a session has a fresh uuid4, no parent, its own loader, is not resumed and not initialised."""
    session = AmplifierSession(PLAN)

    assert uuid.UUID(session.session_id).version == 4
    assert session.session_id != AmplifierSession(PLAN).session_id
    assert session.parent_id is None
    assert session.is_resumed is False
    assert session.initialized is False
    assert isinstance(session.loader, ModuleLoader)
    assert session.coordinator.loader is session.loader


def test_coordinator_belongs_to_the_session() -> None:
    """The coordinator knows its session, and both hold the very plan that was given."""
    plan = {"session": {"orchestrator": "o", "context": "c"}}

    session = AmplifierSession(plan)

    assert isinstance(session.coordinator, ModuleCoordinator)
    assert session.coordinator.session is session
    assert session.config is plan
    assert session.coordinator.config is plan
    assert session.coordinator.session_id == session.session_id


async def test_ids_are_default_fields_of_every_event() -> None:
    """Whatever is emitted carries session_id and parent_id."""
    session = AmplifierSession(PLAN, session_id="me", parent_id="you")
    heard: list[dict[str, Any]] = []
    session.coordinator.hooks.register("x:y", lambda event, data: heard.append(data))

    await session.coordinator.hooks.emit("x:y", {})

    assert (heard[0]["session_id"], heard[0]["parent_id"]) == ("me", "you")


def test_status_starts_running() -> None:
    """A fresh session's status is a SessionStatus that says running."""
    session = AmplifierSession(PLAN, session_id="me")

    assert isinstance(session.status, SessionStatus)
    assert session.status.session_id == "me"
    assert session.status.status == "running"
    assert session.status.last_error is None


def test_falsy_loader_is_replaced() -> None:
    """`loader or ModuleLoader()`: a loader that counts as false is not used."""

    class Falsy(ModuleLoader):
        def __bool__(self) -> bool:
            return False

    loader = Falsy()

    assert AmplifierSession(PLAN, loader).loader is not loader


def test_plan_values_need_not_be_json() -> None:
    """Objects, locks and callables in a plan are no reason to refuse it."""
    plan = {**PLAN, "tools": [{"module": "tool-x", "config": {"client": object(), "call": print}}]}

    assert AmplifierSession(plan).config is plan


def test_one_class_in_both_places() -> None:
    """The session class is the same object from the top level and from its module."""
    assert session_module.AmplifierSession is AmplifierSession
    assert isinstance(AmplifierSession(PLAN).coordinator.hooks, HookRegistry)


def test_an_id_that_is_no_string_is_refused() -> None:
    """A session id must be a string, and the error says what was given instead."""
    plan = {"session": {"orchestrator": "loop-a", "context": "context-a"}}
    with pytest.raises(TypeError, match="session_id must be a string, got int"):
        AmplifierSession(plan, session_id=5)  # type: ignore[arg-type]
