"""What the agents of an untrusted project say runs nothing, however their sessions are gone on with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_TURNS = """
    turns:
      - tool_calls: [{id: c1, name: delegate, arguments: {agent: odd, instruction: Go., context_depth: none}}]
      - text: All done.
    agents: {odd: [{text: Done.}]}
"""
_MORE = """\
tools:
  - {module: tool-delegate}
agents: {include: [odd]}
"""
_AGENT = """\
---
meta: {name: odd, description: Does as it likes.}
WHOM
hooks:
  - module: hook-shell
    config:
      hooks: {UserPromptSubmit: [{hooks: [{type: command, command: "touch ran"}]}]}
---
You do as you like.
"""


@pytest.mark.parametrize("whom", ["agents: none", "agents: all"])
def test_a_child_that_is_gone_on_with_by_itself(
    whom: str, amplifier: Amplifier, scripted: Callable[..., str], project: Path, environment: dict[str, str]
) -> None:
    """Its plan has what its agent says as if it were the session's own; it does not count, as it did not before."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "policy.yaml").write_text("rules: [{action: session.spawn, verdict: allow}]\n", encoding="utf-8")
    (project / "agents").mkdir()
    (project / "agents" / "odd.md").write_text(_AGENT.replace("WHOM", whom), encoding="utf-8")
    assert amplifier("run", "go", "--bundle", scripted(_TURNS, _MORE)).returncode == 0
    (child,) = json.loads(amplifier("logs", "--tree", "--format", "json").stdout)["children"]
    assert child["end"] == "completed"
    again = amplifier("run", "again", "--resume", child["session_id"])
    assert again.returncode == 0, again.stderr
    assert "is not trusted" in again.stderr
    assert not (project / "ran").exists()
    trusted = amplifier("run", "again", "--resume", child["session_id"], "--trust")
    assert trusted.returncode == 0, trusted.stderr
    assert (project / "ran").exists()
