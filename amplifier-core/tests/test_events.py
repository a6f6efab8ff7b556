"""The canonical events."""

from __future__ import annotations

import re

import pytest

from amplifier_core import events
from amplifier_core.hooks import HookRegistry


def test_names_are_namespace_and_action() -> None:
    """Each name has exactly one colon, is lower case, and there is no other of its kind."""
    assert all(re.fullmatch("[a-z_]+:[a-z_]+", event) for event in events.ALL_EVENTS)
    assert len(set(events.ALL_EVENTS)) == len(events.ALL_EVENTS)


@pytest.mark.parametrize("event", events.ALL_EVENTS)
async def test_each_event_reaches_its_handlers(event: str) -> None:
    """An event reaches who asked for it, with its name, and nobody else."""
    hooks = HookRegistry()
    heard: list[str] = []
    for known in events.ALL_EVENTS:
        hooks.register(known, lambda name, data: heard.append(name))
    await hooks.emit(event, {})
    assert heard == [event]
