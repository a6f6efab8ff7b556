"""What apps do with sessions: ids and costs of children, events to log, working folders."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_foundation import (
    WORKING_DIR_CAPABILITY,
    bridge_child_cost,
    generate_sub_session_id,
    get_working_dir,
    inject_additional_events,
    set_working_dir,
    sum_cost_usd,
)

_ID = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})_(.+)")


def _parts(session_id: str) -> tuple[str, str, str]:
    match = _ID.fullmatch(session_id)
    assert match is not None
    return match[1], match[2], match[3]


def test_an_id_has_the_span_of_its_parent() -> None:
    """The span is that of a parent which is a child itself, else the middle of the trace, else zeros."""
    root = generate_sub_session_id("Foundation:Zen Architect", "2f6d1c1e-0000-4000-8000-000000000000")
    assert _parts(root)[::2] == ("0" * 16, "foundation-zen-architect")
    child = generate_sub_session_id("helper", root, "f" * 32)
    assert _parts(child)[0] == _parts(root)[1]
    trace = "0123456789abcdef0123456789abcdef"
    assert _parts(generate_sub_session_id(None, None, trace))[::2] == (trace[8:24], "agent")
    assert generate_sub_session_id("helper", root) != child


def test_costs_are_summed_exactly() -> None:
    """Costs are decimal numbers; without a known price there is no sum."""
    assert sum_cost_usd([{"cost_usd": "0.1"}, {"cost_usd": Decimal("0.2")}, None, {"cost_usd": None}]) == Decimal("0.3")
    assert sum_cost_usd([{}, {"cost_usd": None}]) is None


async def test_a_childs_cost_reaches_its_parent() -> None:
    """What the child's contributors report is one contribution to the parent; one without a price is none."""
    child, parent = MockCoordinator(), MockCoordinator()
    await bridge_child_cost(child, parent, "unpriced")
    child.register_contributor("session.cost", "model", lambda: {"cost_usd": "0.25"})
    child.register_contributor("session.cost", "tool", lambda: {"cost_usd": "0.5"})
    await bridge_child_cost(child, parent, "child")
    assert await parent.collect_contributions("session.cost") == [{"cost_usd": "0.75"}]


async def test_a_cost_that_cannot_be_collected_fails_nothing() -> None:
    """A coordinator that raises costs the parent nothing but the amount."""

    class Broken:
        async def collect_contributions(self, channel: str) -> Any:
            raise RuntimeError("closed")

    parent = MockCoordinator()
    await bridge_child_cost(Broken(), parent, "child")
    assert await parent.collect_contributions("session.cost") == []


def test_events_are_added_to_the_log() -> None:
    """The logging hooks get the names once each, in place; other hooks are left alone."""
    plan: dict[str, Any] = {
        "hooks": [
            {"module": "hooks-logging", "config": {"additional_events": ["a"], "priority": 1}},
            {"module": "hook-context-intelligence"},
            {"module": "hooks-redaction"},
        ]
    }
    assert inject_additional_events(plan, ["a", "b"]) is plan
    logging, graph, redaction = plan["hooks"]
    assert logging["config"] == {"additional_events": ["a", "b"], "priority": 1}
    assert graph["config"] == {"additional_events": ["a", "b"]}
    assert redaction == {"module": "hooks-redaction"}
    inject_additional_events(plan, ["c"], {"hooks-redaction"})
    assert redaction["config"] == {"additional_events": ["c"]}


def test_the_working_folder(tmp_path: Path) -> None:
    """It is the capability's, else the fallback, else the folder of the process."""
    coordinator = MockCoordinator()
    assert get_working_dir(coordinator) == Path.cwd()
    assert get_working_dir(coordinator, tmp_path) == tmp_path
    set_working_dir(coordinator, tmp_path / "project")
    assert coordinator.get_capability(WORKING_DIR_CAPABILITY) == str(tmp_path / "project")
    assert get_working_dir(coordinator, tmp_path) == tmp_path / "project"
