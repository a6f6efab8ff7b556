"""Handlers of every event."""

from __future__ import annotations

from amplifier_core.events import ALL_EVENTS
from amplifier_core.hooks import HookRegistry


async def test_every_event_is_heard(hooks: HookRegistry) -> None:
    """A handler of `*` hears every event under its own name, canonical or made up, with the same data as the others."""
    heard: list[str] = []
    hooks.set_default_fields(session_id="s")
    hooks.register("*", lambda event, data: heard.append(f"{event} {data['session_id']} {data['n']}"))
    for number, event in enumerate([*ALL_EVENTS, "made:up", "", "no colon"]):
        await hooks.emit(event, {"n": number})
    assert heard == [f"{event} s {n}" for n, event in enumerate([*ALL_EVENTS, "made:up", "", "no colon"])]


async def test_after_the_events_own_of_the_same_priority(hooks: HookRegistry) -> None:
    """Handlers of `*` run after the event's own handlers of the same priority, whoever came first; else by priority."""
    order: list[str] = []
    for label, event, priority in (
        ("all 0 first", "*", 0),
        ("all -1", "*", -1),
        ("own 0", "x:y", 0),
        ("own 1", "x:y", 1),
        ("all 0 second", "*", 0),
        ("own 0 later", "x:y", 0),
    ):
        hooks.register(event, lambda event, data, label=label: order.append(label), priority)
    await hooks.emit("x:y", {})
    assert order == ["all -1", "own 0", "own 0 later", "all 0 first", "all 0 second", "own 1"]


async def test_made_up_names_leave_nothing_behind(hooks: HookRegistry) -> None:
    """Names that are only ever emitted are not kept: a long session cannot fill the memory with them."""
    hooks.register("*", lambda event, data: None)
    hooks.register("x:y", lambda event, data: None)
    await hooks.emit("x:y", {})
    before = {name: len(value) for name, value in vars(hooks).items() if isinstance(value, dict)}
    for number in range(500):
        await hooks.emit(f"made:up_{number}", {})
        await hooks.emit_and_collect(f"made:up_{number}", {})
        hooks.list_handlers(f"made:up_{number}")
    assert {name: len(value) for name, value in vars(hooks).items() if isinstance(value, dict)} == before
