"""Names and texts that try to steer the terminal, in every command that shows them to a person."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

#: It clears the screen, sets the title, and turns the direction of the text.
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil"
_BUNDLE = """\
bundle: {name: "NAME", description: "NAME", version: "NAME"}
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers: [{module: provider-mock, config: {scenario: run.yaml, default_model: "NAME"}}]
hooks: [{module: hooks-logging}]
agents: {explorer: {description: "NAME", instruction: "NAME"}}
"""
_COMMANDS = [
    ("session", "list"),
    ("session", "list", "--all-projects"),
    ("session", "list", "--tree"),
    ("session", "show", "SESSION"),
    ("session", "show", "SESSION", "--with-transcript"),
    ("session", "repair", "SESSION"),
    ("session", "export", "SESSION"),
    ("session", "delete", "SESSION"),
    ("session", "show", EVIL),
    ("session", "fork", EVIL),
    ("logs",),
    ("logs", "--json"),
    ("logs", EVIL),
    ("continue", "again"),
    ("continue", "again", "--json"),
    ("run", "again", "--resume", "evil"),
    ("run", "again", "--resume", EVIL),
    ("run", "again", "--bundle", EVIL),
    ("run", "again", "--provider", EVIL),
    ("run", "again", "--verbose", "--bundle", "BUNDLE"),
    ("run", "again", "--json", "--bundle", "BUNDLE"),
    ("bundle", "show", "BUNDLE"),
    ("bundle", "explain", "BUNDLE"),
    ("bundle", "validate", "BUNDLE"),
    ("bundle", "list"),
    ("agents", "list", "--bundle", "BUNDLE"),
    ("tool", "list", "--bundle", "BUNDLE"),
    ("provider", "list"),
    ("settings", "list"),
    ("settings", "get", "config"),
    ("module", "list"),
    ("source", "list"),
    ("doctor",),
    ("trust", "--list"),
    (EVIL,),
    ("session", EVIL),
]


@pytest.fixture
def evil(amplifier: Amplifier, project: Path) -> str:
    """Return the id of a session whose name, bundle, prompt and answer try to steer the terminal."""
    escaped = json.dumps(EVIL)[1:-1]
    answers = {"turns": [{"text": f"Answer {EVIL}", "thinking": EVIL}], "repeat": True}
    (project / "run.yaml").write_text(json.dumps(answers))
    (project / "bundle.yaml").write_text(_BUNDLE.replace("NAME", escaped))
    result = amplifier("run", f"Prompt {EVIL}", "--bundle", "bundle.yaml")
    assert result.returncode == 0, result.stderr
    _is_harmless(result)
    [metadata] = project.parent.rglob("metadata.json")
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "name": EVIL, "description": EVIL}))
    settings = project / ".amplifier"
    settings.mkdir()
    (settings / "settings.yaml").write_text(
        "config: {providers: [{module: provider-mock, id: other, config: {default_model: NAME}}]}\n".replace(
            "NAME", json.dumps(EVIL)
        )
    )
    return metadata.parent.name


def _is_harmless(result: subprocess.CompletedProcess[str]) -> None:
    for text in (result.stdout, result.stderr):
        steering = [one for one in text if (ord(one) < 32 and one not in "\t\n") or 127 <= ord(one) < 160]
        assert not steering, text
    assert "Traceback" not in result.stderr


def test_no_command_lets_a_text_steer_the_terminal(amplifier: Amplifier, evil: str) -> None:
    """Whatever sessions, bundles, models and settings say, no control character but tab and newline is printed."""
    failed = []
    for command in _COMMANDS:
        arguments = [evil if part == "SESSION" else "bundle.yaml" if part == "BUNDLE" else part for part in command]
        result = amplifier(*arguments)
        try:
            _is_harmless(result)
        except AssertionError as error:
            failed.append((command, str(error)[:300]))
    assert not failed
