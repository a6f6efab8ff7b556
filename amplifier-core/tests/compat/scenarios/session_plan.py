"""The constructor of a session and what it refuses."""

from __future__ import annotations

from typing import Any

from amplifier_core import ModuleLoader
from amplifier_core.session import AmplifierSession

from .base import Stage, outcome, scenario
from .parts import is_up

GOOD = {"session": {"orchestrator": "loop-x", "context": "context-x"}}


@scenario
async def refused_plans(stage: Stage) -> Any:
    """Plans that lack what a session needs, each with its message."""
    plans: list[Any] = [
        None,
        {},
        {"session": {}},
        {"providers": []},
        {"session": {"context": "c"}},
        {"session": {"orchestrator": "o"}},
        {"session": {"orchestrator": "", "context": "c"}},
        {"session": {"orchestrator": "o", "context": None}},
        {"session": {"orchestrator": {}, "context": "c"}},
        {"session": {"orchestrator": {"module": "o"}, "context": {}}},
    ]
    return [str(await outcome(lambda plan=plan: type(AmplifierSession(plan)).__name__)) for plan in plans]


@scenario
async def wrong_types(stage: Stage) -> Any:
    """A plan, or its session part, that is no dict."""
    plans: list[Any] = [
        "text",
        ["list"],
        3,
        {"session": "text"},
        {"session": ["orchestrator", "context"]},
        {"session": None},
    ]
    return [str(await outcome(lambda plan=plan: type(AmplifierSession(plan)).__name__)).split(":")[0] for plan in plans]


@scenario
async def fresh_session(stage: Stage) -> Any:
    """What a session is before it is initialised."""
    plan = {**GOOD, "extra": {"decimal": object}}
    session = AmplifierSession(plan)
    status = session.status.model_dump()
    return {
        "id": session.session_id,
        "parent": session.parent_id,
        "resumed": getattr(session, "is_resumed", "absent"),
        "initialized": is_up(session),
        "same_plan": [session.config is plan, session.coordinator.config is plan],
        "session": session.coordinator.session is session,
        "ids": [session.coordinator.session_id == session.session_id, session.coordinator.parent_id],
        "loader": [isinstance(session.loader, ModuleLoader), session.coordinator.loader is session.loader],
        "status": {
            **status,
            "session_id": status["session_id"] == session.session_id,
            "started_at": type(status["started_at"]).__name__,
        },
    }


@scenario
async def given_ids(stage: Stage) -> Any:
    """Ids and flags given in positional order."""
    approval, display = object(), object()
    loader = ModuleLoader()
    session = AmplifierSession(GOOD, loader, "me", "mother", approval, display, True)
    hub = session.coordinator
    return [
        session.session_id,
        session.parent_id,
        getattr(session, "is_resumed", "absent"),
        session.loader is loader,
        hub.loader is loader,
        hub.approval_system is approval,
        hub.display_system is display,
        hub.session_id,
        hub.parent_id,
    ]


@scenario
async def plan_is_live(stage: Stage) -> Any:
    """A change through one side is seen by the other."""
    session = AmplifierSession({"session": {**GOOD["session"]}})
    before = session.coordinator.injection_budget_per_turn
    session.config["session"]["injection_budget_per_turn"] = 7
    session.coordinator.config["added"] = 1
    return [before, session.coordinator.injection_budget_per_turn, session.config.get("added")]


@scenario
async def odd_ids(stage: Stage) -> Any:
    """An empty id, and ids that are no text."""
    ids: list[Any] = ["", None, 5]
    return [
        str(await outcome(lambda value=value: AmplifierSession(GOOD, None, value).session_id)).split(":")[0]
        for value in ids
    ]


@scenario
async def not_initialised(stage: Stage) -> Any:
    """Executing before initialising."""
    session = AmplifierSession(GOOD)
    return [await outcome(lambda: session.execute("hi")), session.status.status, is_up(session)]


@scenario
async def read_only_attributes(stage: Stage) -> Any:
    """What of a session cannot be assigned."""
    session = AmplifierSession(GOOD)
    names = ("session_id", "parent_id", "coordinator")
    return {name: str(await outcome(lambda name=name: setattr(session, name, "x"))).split(":")[0] for name in names}
