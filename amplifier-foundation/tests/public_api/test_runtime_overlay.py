"""Additions to a running session, counted by scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_foundation import (
    RUNTIME_CONTEXT_OVERLAY_CAPABILITY,
    RUNTIME_SKILL_OVERLAY_CAPABILITY,
    Bundle,
    RuntimeOverlay,
    TransitionResult,
)


def make(**options: Any) -> tuple[RuntimeOverlay, Any, list[tuple[str, Any]]]:
    """Return an overlay, its coordinator, and the events that it emits."""
    coordinator = MockCoordinator()
    coordinator.config["agents"] = {"known": {"description": "There before."}}
    events: list[tuple[str, Any]] = []
    for name in ("done", "failed"):
        coordinator.hooks.register(name, lambda event, data: events.append((event, data)), name=name)
    return RuntimeOverlay(coordinator, success_event="done", failure_event="failed", **options), coordinator, events


async def test_what_a_scope_adds_is_there_until_it_is_revoked() -> None:
    """Agents go into the plan, context and skills into capabilities, and all are gone afterwards."""
    overlay, coordinator, events = make()
    parts = {"agents": {"helper": {"description": "Helps."}}, "context": ["@team:rules.md"], "skills": ["review"]}
    result = await overlay.apply("plan", parts)
    expected = ["agents:helper", "context:@team:rules.md", "skills:review"]
    assert result == TransitionResult(True, "plan", mounted=expected)
    assert coordinator.config["agents"]["helper"] == {"description": "Helps."}
    assert coordinator.get_capability(RUNTIME_CONTEXT_OVERLAY_CAPABILITY) == ["@team:rules.md"]
    assert coordinator.get_capability(RUNTIME_SKILL_OVERLAY_CAPABILITY) == ["review"]
    assert events[0][0] == "done"
    assert events[0][1]["mounted"] == expected
    assert (await overlay.revoke("plan")).unmounted == expected
    assert list(coordinator.config["agents"]) == ["known"]
    assert coordinator.get_capability(RUNTIME_CONTEXT_OVERLAY_CAPABILITY) == []
    assert await overlay.revoke("plan") == TransitionResult(True, "plan")


async def test_an_agent_of_the_session_is_neither_replaced_nor_removed() -> None:
    """A scope that names an agent the session has keeps that agent as it is."""
    overlay, coordinator, _ = make()
    await overlay.apply("plan", {"agents": {"known": {"description": "Another."}}})
    assert coordinator.config["agents"]["known"] == {"description": "There before."}
    await overlay.revoke("plan")
    assert coordinator.config["agents"] == {"known": {"description": "There before."}}


async def test_a_transition_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid contribution, or a failure on the way, leaves everything as it was and is announced."""
    overlay, coordinator, events = make()
    await overlay.apply("plan", {"skills": ["review"]})
    before = overlay.dump_state()
    result = await overlay.apply("careful", {"tools": ["bash"]})
    assert not result.success
    assert result.error is not None
    assert "tools" in result.error
    assert events[-1][0] == "failed"

    def refuse(name: str, value: Any) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(coordinator, "register_capability", refuse)
    result = await overlay.apply("plan", {"agents": {"helper": {}}})
    assert (result.success, result.mounted, result.error) == (False, [], "RuntimeError: no more")
    assert result.rolled_back == ["agents:helper", "skills:review"]
    assert list(coordinator.config["agents"]) == ["known"]
    assert overlay.dump_state() == before


async def test_agents_by_name_come_from_the_bundle(tmp_path: Path) -> None:
    """A scope may name an agent of the bundle; one that the bundle does not have fails."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "helper.md").write_text("---\nmeta: {description: Helps.}\n---\nYou help.\n")
    overlay, coordinator, _ = make(bundle=Bundle("team", base_path=tmp_path))
    assert (await overlay.apply("plan", {"agents": ["helper"]})).success
    assert coordinator.config["agents"]["helper"]["instruction"] == "You help."
    result = await overlay.apply("other", {"agents": ["gone"]})
    assert result.error == "ValueError: the bundle has no agent 'gone'"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.sampled_from("xyz"))), max_size=12))
async def test_parts_are_counted(steps: list[tuple[str, set[str]]]) -> None:
    """However scopes come and go, a part is there exactly as long as a scope adds it."""
    overlay, coordinator, _ = make()
    wanted: dict[str, set[str]] = {}
    for scope, names in steps:
        if names:
            await overlay.apply(scope, {"agents": {name: {} for name in names}, "skills": sorted(names)})
        else:
            await overlay.revoke(scope)
        wanted[scope] = names
        added = set().union(*wanted.values())
        assert set(coordinator.config["agents"]) == {"known", *added}
        assert set(coordinator.get_capability(RUNTIME_SKILL_OVERLAY_CAPABILITY)) == added
        for name in "xyz":
            count = sum(name in one for one in wanted.values())
            assert overlay.get_refcount("skills", name) == overlay.get_refcount("agents", name) == count
