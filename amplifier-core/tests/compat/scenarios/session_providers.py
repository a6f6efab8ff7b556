"""Providers: several instances of one module, and what happens when one fails."""

from __future__ import annotations

from typing import Any

from amplifier_core.session import AmplifierSession

from .base import Stage, outcome, scenario
from .module_factory import write_module, write_provider
from .parts import base_plan, is_up, watch, write_raising


def plan_with(stage: Stage, *entries: dict[str, Any]) -> dict[str, Any]:
    """Return a session's plan with these providers and no other."""
    plan = base_plan(stage)
    plan["providers"] = list(entries)
    return plan


def entry(number: int, instance: str | None = None, module: str = "provider-many") -> dict[str, Any]:
    """Return one provider's entry in a plan."""
    made: dict[str, Any] = {"module": module, "config": {"n": number}}
    return {**made, "instance_id": instance} if instance else made


async def initialised(stage: Stage, *entries: dict[str, Any]) -> list[Any]:
    """Initialise a session with these providers and describe what is mounted and what was said."""
    write_provider(stage.folder, "provider-many", "many")
    session = AmplifierSession(plan_with(stage, *entries))
    watch(session.coordinator, stage.notes)
    failed = await outcome(session.initialize)
    mounted = {
        name: getattr(provider, "config", None) for name, provider in session.coordinator.get("providers").items()
    }
    return [failed, list(mounted.items()), stage.notes, stage.warnings()[-2:]]


@scenario
async def two_without_instance(stage: Stage) -> Any:
    """Two entries of one module that lack an instance id."""
    return await initialised(stage, entry(1), entry(2))


@scenario
async def three_of_which_two_without(stage: Stage) -> Any:
    """Three entries of which two lack an instance id."""
    return await initialised(stage, entry(1), entry(2, "b"), entry(3))


@scenario
async def default_and_named(stage: Stage) -> Any:
    """One default instance and a named one."""
    return await initialised(stage, entry(1), entry(2, "second"))


@scenario
async def named_then_default(stage: Stage) -> Any:
    """A named instance first, the default one after it."""
    return await initialised(stage, entry(1, "first"), entry(2))


@scenario
async def two_named(stage: Stage) -> Any:
    """Two named instances: the default name is free afterwards."""
    return await initialised(stage, entry(1, "a"), entry(2, "b"))


@scenario
async def named_like_the_default(stage: Stage) -> Any:
    """An instance whose name is the default one."""
    return await initialised(stage, entry(1, "many"), entry(2, "other"))


@scenario
async def declines_silently(stage: Stage) -> Any:
    """A provider that mounts nothing is a failed load."""
    write_module(stage.folder, "provider-shy", "async def mount(coordinator, config=None):\n    return None\n")
    return await initialised(stage, entry(1), {"module": "provider-shy"})


@scenario
async def named_elsewhere(stage: Stage) -> Any:
    """A named instance that mounts itself under another name than the default."""
    write_provider(stage.folder, "provider-elsewhere", "surprise")
    return await initialised(stage, entry(1), entry(2, "x", "provider-elsewhere"))


@scenario
async def raising_after_mount(stage: Stage) -> Any:
    """A provider that mounts itself and then raises leaves the earlier occupant in place."""
    source = """
async def mount(coordinator, config=None):
    await coordinator.mount("providers", "intruder", name="many")
    await coordinator.mount("providers", "extra", name="extra")
    raise RuntimeError("second thoughts")
"""
    write_module(stage.folder, "provider-rash", source)
    return await initialised(stage, entry(1), {"module": "provider-rash", "instance_id": "rash"})


@scenario
async def all_fail(stage: Stage) -> Any:
    """No provider at all is no reason not to initialise; executing then fails."""
    write_raising(stage, "provider-broken")
    session = AmplifierSession(plan_with(stage, {"module": "provider-broken"}))
    await session.initialize()
    return [is_up(session), await outcome(lambda: session.execute("hi")), session.status.status]


@scenario
async def before_load_capability(stage: Stage) -> Any:
    """The capability that is asked before each provider is loaded."""
    write_provider(stage.folder, "provider-many", "many")
    session = AmplifierSession(plan_with(stage, entry(1), entry(2, "no")))
    watch(session.coordinator, stage.notes)
    asked: list[Any] = []

    async def before(coordinator: Any, given: dict[str, Any]) -> None:
        asked.append([coordinator is session.coordinator, dict(given)])
        given["config"]["n"] = "edited"
        if given.get("instance_id") == "no":
            raise PermissionError("not today")

    session.coordinator.register_capability("provider.before_load", before)
    failed = await outcome(session.initialize)
    mounted = {name: provider.config for name, provider in session.coordinator.get("providers").items()}
    return [failed, asked, mounted, stage.notes]


@scenario
async def load_failure_capability(stage: Stage) -> Any:
    """The capability that hears of a failed provider may stop the session."""
    write_raising(stage, "provider-broken")
    session = AmplifierSession(plan_with(stage, {"module": "provider-broken", "instance_id": "b"}))
    watch(session.coordinator, stage.notes)

    async def failure(coordinator: Any, given: dict[str, Any], error: Exception) -> None:
        stage.notes.append(["capability", given, error])
        raise LookupError("no provider, no session")

    session.coordinator.register_capability("provider.load_failure", failure)
    return [await outcome(session.initialize), is_up(session), stage.notes]


@scenario
async def ready_after_remapping(stage: Stage) -> Any:
    """A named provider's ready callback sees it under its instance id."""
    write_provider(stage.folder, "provider-many", "many")
    file = stage.folder / "amplifier_module_provider_many" / "__init__.py"
    ready = """

async def on_session_ready(coordinator):
    coordinator.session_state.setdefault("seen", []).append(sorted(coordinator.get("providers")))
"""
    file.write_text(file.read_text() + ready)
    session = AmplifierSession(plan_with(stage, entry(1, "a"), entry(2, "b")))
    await session.initialize()
    return session.coordinator.session_state.get("seen")
