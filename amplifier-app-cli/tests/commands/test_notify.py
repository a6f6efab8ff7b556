"""`amplifier notify`: channels are enabled, shown and reset, and the topic is never a setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.notify import notify

Run = Callable[..., Result]


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the user's Amplifier folder."""
    return Path(environment["HOME"]) / ".amplifier"


@pytest.fixture
def run(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `amplifier notify` in the project."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    for name in ("AMPLIFIER_HOME", "AMPLIFIER_NTFY_TOPIC"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments, stdin="": CliRunner().invoke(notify, list(arguments), input=stdin)


def _notifications(home: Path) -> Any:
    return yaml.safe_load((home / "settings.yaml").read_text(encoding="utf-8"))["config"]["notifications"]


def test_desktop_writes_what_was_given(run: Run, home: Path) -> None:
    """Each option is a key of its own, and what was not given is left as it is."""
    assert run("desktop", "--enable").exit_code == 0
    assert run("desktop", "--no-show-preview", "--preview-length", "60").exit_code == 0
    assert _notifications(home) == {"desktop": {"enabled": True, "show_preview": False, "preview_length": 60}}
    assert "desktop: enabled (show_preview: False, preview_length: 60)" in run("status").stdout
    assert run("desktop", "--disable").exit_code == 0
    assert "desktop: disabled" in run("status").stdout


def test_the_topic_is_a_key_and_no_setting(run: Run, home: Path) -> None:
    """Enabling ntfy stores the topic with the keys; no file of settings and no output has it."""
    result = run("ntfy", "--enable", "--server", "https://ntfy.example.org", stdin="my-secret-topic\n")
    assert result.exit_code == 0, result.stderr
    assert _notifications(home) == {"ntfy": {"enabled": True, "server": "https://ntfy.example.org"}}
    assert 'AMPLIFIER_NTFY_TOPIC="my-secret-topic"' in (home / "keys.env").read_text(encoding="utf-8")
    status = run("status", "--json")
    assert json.loads(status.stdout)["has_topic"] is True
    shown = result.output + status.output + (home / "settings.yaml").read_text(encoding="utf-8")
    assert "my-secret-topic" not in shown


def test_a_stored_topic_is_not_asked_for_again(run: Run, home: Path) -> None:
    """Enabling it a second time needs no topic."""
    run("ntfy", "--enable", stdin="first\n")
    run("ntfy", "--disable")
    assert run("ntfy", "--enable").exit_code == 0
    assert 'AMPLIFIER_NTFY_TOPIC="first"' in (home / "keys.env").read_text(encoding="utf-8")


def test_without_a_topic_nothing_is_enabled(run: Run, home: Path) -> None:
    """When no topic is given, nothing is written."""
    assert run("ntfy", "--enable").exit_code == 2
    assert not (home / "settings.yaml").exists()


def test_reset_removes_settings_and_topic(run: Run, home: Path) -> None:
    """A channel is gone from the settings, and with ntfy its topic."""
    run("desktop", "--enable")
    run("ntfy", "--enable", stdin="t\n")
    assert run("reset", "--desktop").exit_code == 0
    assert set(_notifications(home)) == {"ntfy"}
    assert run("reset", "--all").exit_code == 0
    assert "AMPLIFIER_NTFY_TOPIC" not in (home / "keys.env").read_text(encoding="utf-8")
    assert json.loads(run("status", "--json").stdout) == {"desktop": {}, "ntfy": {}, "has_topic": False}
    assert run("reset").exit_code == 2


@pytest.mark.parametrize("command", ["desktop", "ntfy"])
def test_a_command_without_options_says_what_there_is(run: Run, command: str) -> None:
    """Nothing to change is a mistake."""
    assert run(command).exit_code == 2
