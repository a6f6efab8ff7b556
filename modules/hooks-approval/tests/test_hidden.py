"""Tools that look at many places are told which of them the rules restrict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_approval import mount


@pytest.fixture
def coordinator(tmp_path: Path) -> MockCoordinator:
    """Return the coordinator of a session without rules of an app."""
    made: MockCoordinator = MockCoordinator()
    made.register_capability("session.working_dir", str(tmp_path.resolve()))
    return made


async def test_what_rules_restrict_is_hidden(coordinator: MockCoordinator, tmp_path: Path) -> None:
    """A path that a rule denies or asks for is hidden from the tools that the rule is about."""
    rules = [
        {"verdict": "deny", "path": "secrets/**"},
        {"verdict": "ask", "path": "docs/**", "tool": "grep"},
        {"verdict": "allow", "path": "src/**"},
    ]
    await mount(coordinator, {"rules": rules})
    hidden = coordinator.get_capability("policy.hidden")
    project = tmp_path.resolve()
    seen = {
        tool: [name for name in ("secrets/key", "docs/a", "src/a") if not hidden(tool)(f"{project}/{name}")]
        for tool in ("grep", "glob")
    }
    assert seen == {"grep": ["src/a"], "glob": ["docs/a", "src/a"]}


@pytest.mark.parametrize(
    "rules", [None, [], [{"verdict": "allow", "path": "**"}], [{"verdict": "deny", "command": "rm *"}]]
)
async def test_without_rules_about_paths_nothing_is_hidden(coordinator: MockCoordinator, rules: Any) -> None:
    """There is nothing to ask then."""
    await mount(coordinator, {"rules": rules})
    assert coordinator.get_capability("policy.hidden")("grep") is None


async def test_the_app_knows_better(coordinator: MockCoordinator) -> None:
    """What an app offers stays: it has the rules of this module, and others."""

    def offered(tool: str) -> None:
        return None

    coordinator.register_capability("policy.hidden", offered)
    await mount(coordinator, {"rules": [{"verdict": "deny", "path": "secrets/**"}]})
    assert coordinator.get_capability("policy.hidden") is offered


async def test_rules_that_cannot_be_read_hide_everything(
    coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they deny everything."""

    def fail(entries: Any) -> Any:
        raise ImportError("no grammar")

    monkeypatch.setattr("amplifier_module_hooks_approval.read_rules", fail)
    await mount(coordinator, {})
    assert coordinator.get_capability("policy.hidden")("grep")("/any/where") is True


async def test_a_search_shows_no_denied_file(coordinator: MockCoordinator, tmp_path: Path) -> None:
    """The tools that search go by it."""
    from amplifier_module_tool_search import mount as mount_search

    for name in ("secrets/key", "src/main.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("word", encoding="utf-8")
    await mount_search(coordinator, {})
    await mount(coordinator, {"rules": [{"verdict": "deny", "path": "secrets/**"}]})
    found = await coordinator.get("tools", "grep").execute({"pattern": "word"})
    assert found.output["files"] == ["src/main.py"]
