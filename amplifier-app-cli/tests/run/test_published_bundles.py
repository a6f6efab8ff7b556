"""The bundles under published names start without a network, a key or an install step."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

AGENTS = {
    "anchors": "explorer architect builder debugger git-ops researcher",
    "foundation": (
        "zen-architect modular-builder bug-hunter test-coverage explorer integration-specialist security-guardian "
        "session-analyst post-task-cleanup file-ops git-ops web-research foundation-expert"
    ),
}


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_they_start_offline(amplifier: Amplifier, name: str) -> None:
    """`run -B NAME` answers, and what the model is told has the text of the bundle and no open mention."""
    done = amplifier("run", "-B", name, "hello", "--json")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[-1]["status"] == "success"
    assert "note:" not in done.stderr


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_their_agents_are_listed_by_name(amplifier: Amplifier, name: str) -> None:
    """`agents list -b NAME` names each, and each can be shown."""
    done = amplifier("agents", "list", "-b", name, "--json")
    listed = {row["name"] for row in json.loads(done.stdout)}
    assert listed == {f"{name}:{agent}" for agent in AGENTS[name].split()}
    assert "note:" not in done.stderr


def test_a_bundle_builds_on_foundation(amplifier: Amplifier, project: Path) -> None:
    """A bundle that includes a behavior of foundation and mentions its files runs, and the model reads them."""
    (project / "ours.md").write_text(
        "---\nbundle: {name: ours}\nincludes:\n- bundle: foundation:behaviors/agents\n"
        "- bundle: foundation:behaviors/logging\n"
        "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
        "providers: [{module: provider-mock, config: {raw: true}}]\n---\n@foundation:context/ISSUE_HANDLING.md\n"
    )
    done = amplifier("run", "-B", "./ours.md", "hello", "-v")
    assert done.returncode == 0, done.stderr
    [log] = Path(project.parent).rglob("events.jsonl")
    text = "".join(path.read_text() for path in log.parent.rglob("*") if path.is_file())
    assert "Handling an issue" in text
    assert "When and how to delegate" in text
