"""The module in a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_mock import mount, on_session_ready
from amplifier_module_provider_mock.scenario import ScenarioError

Plan = Callable[..., dict[str, Any]]


async def test_a_scripted_run(plan: Plan, tmp_path: Path) -> None:
    """A session follows its script through a tool call to the answer."""
    (tmp_path / "run.yaml").write_text(
        "turns:\n"
        "  - {expect: {last_role: user, tools: [look]}, tool_calls: [{name: look, arguments: {where: here}}]}\n"
        "  - {expect: {last_role: tool, contains: 'here: a desk'}, text: I see a desk.}\n",
        encoding="utf-8",
    )
    async with AmplifierSession(plan([{"module": "provider-mock", "config": {"scenario": "run.yaml"}}])) as session:
        assert await session.execute("look") == "I see a desk."


@pytest.mark.parametrize(
    ("metadata", "parent", "answer"),
    [
        ({}, None, "root"),
        ({"agent_name": "explorer"}, "p-1", "child"),
        ({"agent_name": "explorer"}, None, "child"),
        ({"agent_name": "main"}, None, "root"),
        ({"agent_name": 3}, "p-1", "root"),
    ],
)
async def test_the_agents_name_is_in_the_plan(
    plan: Plan, tmp_path: Path, metadata: dict[str, Any], parent: str | None, answer: str
) -> None:
    """A child plays the part of the agent that its plan names; a root without a part plays the main one."""
    (tmp_path / "run.yaml").write_text("{turns: [{text: root}], agents: {explorer: [{text: child}]}}", encoding="utf-8")
    providers = [{"module": "provider-mock", "config": {"scenario": "run.yaml"}}]
    async with AmplifierSession(plan(providers, **metadata), parent_id=parent) as session:
        assert await session.execute("x") == answer


async def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is relative to `working_dir`, else to the session's directory, else to the current one."""
    for name in ("config", "session", "current"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.yaml").write_text(f"turns: [{{text: {name}}}]", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "current")

    async def first_answer(config: dict[str, Any], directory: Path | None) -> str:
        coordinator: MockCoordinator = MockCoordinator()
        if directory is not None:
            coordinator.register_capability("session.working_dir", str(directory))
        await mount(coordinator, {"scenario": "run.yaml", **config})
        text: str = coordinator.get("providers", "mock")._replies.next([], []).text
        return text

    assert await first_answer({}, None) == "current"
    assert await first_answer({}, tmp_path / "session") == "session"
    assert await first_answer({"working_dir": str(tmp_path / "config")}, tmp_path / "session") == "config"
    assert await first_answer({"scenario": str(tmp_path / "config" / "run.yaml")}, tmp_path / "session") == "config"


async def test_a_bad_scenario_does_not_mount(coordinator: MockCoordinator, tmp_path: Path) -> None:
    """A file that cannot be used is an error when the session starts, and nothing is mounted."""
    with pytest.raises(ScenarioError, match="cannot be read"):
        await mount(coordinator, {"scenario": str(tmp_path / "none.yaml")})
    assert coordinator.get("providers") == {}


async def test_without_config(coordinator: MockCoordinator) -> None:
    """No config at all gives the canned replies, and nothing to do when the session is ready."""
    await mount(coordinator)
    provider = coordinator.get("providers", "mock")
    await on_session_ready(coordinator)
    assert coordinator.get("providers", "mock") is provider


async def test_two_mocks_in_one_session(plan: Plan) -> None:
    """Several instances have replies of their own."""
    providers = [
        {"module": "provider-mock", "config": {"responses": ["a"]}},
        {"module": "provider-mock", "instance_id": "mock-2", "config": {"responses": ["b"], "priority": 1}},
    ]
    async with AmplifierSession(plan(providers)) as session:
        assert sorted(session.coordinator.get("providers")) == ["mock", "mock-2"]
        assert await session.execute("x") == "b"
        assert await session.coordinator.collect_contributions("session.cost") == [{"cost_usd": "0"}]
