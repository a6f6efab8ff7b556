"""The coordinator: its attributes and mount points."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from amplifier_core import HookRegistry, ModuleCoordinator

from .base import Stage, outcome, scenario


class Named:
    """A module with a name."""

    def __init__(self, name: str = "named") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Named({self.name!r})"


SESSION = SimpleNamespace(session_id="s", parent_id="p", config={"session": {"injection_size_limit": 9}})


@scenario
async def bare(stage: Stage) -> Any:
    """A coordinator without a session."""
    hub = ModuleCoordinator()
    points = {key: value for key, value in hub.mount_points.items() if key != "hooks"}
    return {
        "ids": [hub.session_id, hub.parent_id, hub.session, hub.config, hub.loader],
        "systems": [hub.approval_system, hub.display_system],
        "points": points,
        "hooks": [isinstance(hub.hooks, HookRegistry), hub.hooks is hub.mount_points["hooks"]],
        "limits": [hub.injection_budget_per_turn, hub.injection_size_limit, hub._current_turn_injections],
        "state": [hub.session_state, hub.channels, hub._cleanup_fns],
    }


@scenario
async def with_session(stage: Stage) -> Any:
    """A coordinator of a session-like object."""
    approval, display = object(), object()
    hub = ModuleCoordinator(SESSION, approval, display)
    same = [
        hub.config is SESSION.config,
        hub.session is SESSION,
        hub.approval_system is approval,
        hub.display_system is display,
    ]
    return [hub.session_id, hub.parent_id, same, hub.injection_size_limit]


@scenario
async def incomplete_sessions(stage: Stage) -> Any:
    """A session that lacks an attribute, and a config that is a model."""
    lacking = [
        SimpleNamespace(session_id="s"),
        SimpleNamespace(session_id="s", parent_id=None),
        SimpleNamespace(config={}),
    ]
    said = [str(await outcome(lambda given=given: ModuleCoordinator(given))).split(":")[0] for given in lacking]
    model = SimpleNamespace(model_dump=lambda: {"session": {"injection_size_limit": 3}})
    hub = await outcome(lambda: ModuleCoordinator(SimpleNamespace(session_id="s", parent_id=None, config=model)))
    return [said, getattr(hub, "injection_size_limit", str(hub))]


@scenario
async def settable(stage: Stage) -> Any:
    """Which attributes can be assigned."""
    hub = ModuleCoordinator(SESSION)
    values = {
        "session_id": "x", "parent_id": "x", "session": 1, "config": {}, "mount_points": {"tools": {}}, "hooks": 1,
        "cancellation": 1, "loader": 1, "approval_system": 1, "display_system": 1, "session_state": {"a": 1},
        "channels": {}, "injection_budget_per_turn": 1, "injection_size_limit": 1, "_current_turn_injections": 5,
        "anything_else": 1,
    }  # fmt: skip
    return {
        name: str(await outcome(lambda n=name, v=value: setattr(hub, n, v))).split(":")[0]
        for name, value in values.items()
    }


@scenario
async def session_state_must_be_a_dict(stage: Stage) -> Any:
    """Assigning something else."""
    hub = ModuleCoordinator()
    said = str(await outcome(lambda: setattr(hub, "session_state", [1]))).split(":")[0]
    hub.session_state["kept"] = 1
    return [said, hub.session_state]


@scenario
async def subclass(stage: Stage) -> Any:
    """A subclass may skip the constructor and add attributes."""

    class Mine(ModuleCoordinator):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self.extra = "mine"

    hub: Any = Mine(SESSION)
    hub.more = 1
    return [hub.extra, hub.more, hub.session_id]


@scenario
async def mount_kinds(stage: Stage) -> Any:
    """Single points replace, named points collect."""
    hub = ModuleCoordinator()
    await hub.mount("orchestrator", "one")
    await hub.mount("orchestrator", "two", name="ignored")
    await hub.mount("tools", Named("a"))
    await hub.mount("tools", Named("b"), name="given")
    await hub.mount("tools", Named("again"), name="a")
    await hub.mount("providers", "text", name="p")
    await hub.mount("module-source-resolver", "resolver")
    points = ("orchestrator", "tools", "providers", "module-source-resolver", "context")
    return {point: repr(hub.get(point)) for point in points}


@scenario
async def refused_mounts(stage: Stage) -> Any:
    """Unknown points, the hooks, and modules without a name."""
    hub = ModuleCoordinator()
    tries: list[tuple[Any, ...]] = [
        ("nowhere", 1),
        ("hooks", 1),
        ("tools", object()),
        ("session", 1),
        ("providers", "text"),
    ]
    return [await outcome(lambda given=given: hub.mount(*given)) for given in tries]


@scenario
async def odd_names(stage: Stage) -> Any:
    """Modules whose name is empty, None or no text."""
    hub = ModuleCoordinator()
    names: list[Any] = ["", None, 5]
    said = [await outcome(lambda name=name: hub.mount("tools", Named(name))) for name in names]
    return [[str(text).split(":")[0] for text in said], repr(hub.get("tools"))]


@scenario
async def mount_takes_effect_when_called(stage: Stage) -> Any:
    """Even when it is not awaited; and what it returns is a coroutine."""
    hub = ModuleCoordinator()
    pending = hub.mount("tools", Named("a"))
    seen = [sorted(hub.get("tools")), asyncio.iscoroutine(pending)]
    await pending
    return seen


@scenario
async def getting(stage: Stage) -> Any:
    """By name, without a name, unknown."""
    hub = ModuleCoordinator()
    await hub.mount("tools", Named("a"))
    await hub.mount("context", "ctx")
    return [
        hub.get("tools", "a"),
        hub.get("tools", "zz"),
        hub.get("tools") is hub.mount_points["tools"],
        hub.get("context", "ignored"),
        hub.get("hooks") is hub.hooks,
        await outcome(lambda: hub.get("nowhere")),
    ]


@scenario
async def unmounting(stage: Stage) -> Any:
    """Single, named, missing, hooks, unknown."""
    hub = ModuleCoordinator()
    await hub.mount("tools", Named("a"))
    await hub.mount("context", "ctx")
    tries = [("context",), ("tools", "a"), ("tools", "zz"), ("tools",), ("hooks",), ("nowhere",)]
    said = [await outcome(lambda given=given: hub.unmount(*given)) for given in tries]
    return [said, hub.get("context"), hub.get("tools"), hub.get("hooks") is hub.hooks]


@scenario
async def written_by_hand(stage: Stage) -> Any:
    """Modules may write into the mount points; extra keys are accepted and empty."""
    hub = ModuleCoordinator()
    hub.mount_points["tools"]["direct"] = "tool"
    hub.mount_points["extra"] = {"a": 1}
    said = [await outcome(lambda: hub.mount("extra", 1, name="n")), await outcome(lambda: hub.unmount("extra"))]
    return [hub.get("tools", "direct"), await outcome(lambda: hub.get("extra")), said, hub.mount_points["extra"]]


@scenario
async def described(stage: Stage) -> Any:
    """to_dict, and what turns its flags."""
    hub = ModuleCoordinator(SESSION, object(), object())
    first = hub.to_dict()
    hub.approval_system, hub.display_system = object(), object()
    await hub.mount("tools", Named("a"))
    await hub.mount("providers", Named("p"))
    await hub.mount("orchestrator", 1)
    await hub.mount("context", 1)
    hub.register_capability("c", None)
    second = hub.to_dict()
    hub.approval_system, hub.display_system = None, None
    third = hub.to_dict()
    return [first, second, [third["has_approval_provider"], third["has_display_service"]]]
