"""Every command that people see has `--json`, and prints one JSON document with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from amplifier_app_cli.main import main

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

#: What prints something else: a script for a shell.
OTHERS = {"amplifier completion"}


def _leaves(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _leaves(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command


def test_every_command_has_the_option() -> None:
    """All visible commands accept `--json`, but for the few that print something else."""
    without = {
        path
        for path, command in _leaves(main, "amplifier")
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == OTHERS


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("bundle add ./extra.yaml --app --project", "bundle.added.extra"),
        ("bundle set minimal", "bundle.active"),
        ("module add tool-todo", "modules.tools.tool-todo"),
        ("module add tool-todo --source ./mine --local", "modules.tools.tool-todo.source"),
        ("provider add mock --model m", "config.providers.provider-mock"),
    ],
)
def test_edits_of_settings(amplifier: Amplifier, project: Path, given: str, key: str) -> None:
    """A command that changes settings prints which keys of which files it changed."""
    (project / "extra.yaml").write_text("bundle: {name: extra}\n", encoding="utf-8")
    (project / "mine").mkdir()
    result = amplifier(*given.split(), "--json")
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["changed"] is True
    assert any(edit["key"].startswith(key) and Path(edit["file"]).is_file() for edit in record["edits"]), record


def test_removing_what_was_added(amplifier: Amplifier) -> None:
    """What was set is unset with one document as well, and an error is one too."""
    for given in ("bundle set minimal", "module add tool-todo", "provider add mock --model m"):
        assert amplifier(*given.split()).returncode == 0
    for given in ("bundle unset", "module remove tool-todo", "provider set mock --model n", "provider remove mock -y"):
        result = amplifier(*given.split(), "--json")
        assert (result.returncode, json.loads(result.stdout)["changed"]) == (0, True), result.stderr
    result = amplifier("module", "remove", "tool-todo", "--json")
    assert (result.returncode, json.loads(result.stdout)["code"]) == (2, "setting_not_found")


def test_keys(amplifier: Amplifier) -> None:
    """Storing and removing a key says where, and never what."""
    stored = amplifier("keys", "set", "MY_KEY", "--json", stdin="the-secret-value")
    assert json.loads(stored.stdout)["where"] == "file"
    assert "the-secret-value" not in stored.stdout
    assert json.loads(amplifier("keys", "remove", "MY_KEY", "-y", "--json").stdout)["removed"] is True


def test_init_and_export(amplifier: Amplifier, project: Path) -> None:
    """`init` prints what it changed, `session export` where the file is; the session itself is no second document."""
    result = amplifier("init", "--provider", "mock", "--yes", "--json")
    assert json.loads(result.stdout) == {"changed": ["provider"], "provider": "provider-mock"}
    assert amplifier("run", "hello").returncode == 0
    (session,) = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    record = json.loads(amplifier("session", "export", session["id"], "--json").stdout)
    assert record["id"] == session["id"]
    assert Path(record["file"]).parent == project
    assert amplifier("session", "export", session["id"], "-o", "-", "--json").returncode == 2


def test_hidden_commands(amplifier: Amplifier, project: Path) -> None:
    """The published names that change settings print one document too."""
    (project / "mine").mkdir()
    added = json.loads(amplifier("source", "add", "tool-x", "./mine", "--json").stdout)
    removed = json.loads(amplifier("source", "remove", "tool-x", "--json").stdout)
    assert added["edits"][0]["key"] == removed["edits"][0]["key"] == "sources.modules.tool-x"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("logs nothing", "session_not_found"),
        ("logs --verify nothing", "session_not_found"),
        ("logs", "usage"),
        ("keys remove NOTHING -y", "key_not_found"),
        ("keys set no-name", "key_name"),
        ("provider add nothing", "provider_unknown"),
        ("provider install nothing", "provider_unknown"),
        ("bundle show --explain -k nothing", "setting_not_found"),
        ("mcp add nothing", "usage"),
        ("policy check nothing.yaml", "path_not_found"),
        ("policy check --past nothing.yaml", "path_not_found"),
        ("trust nothing", "path_not_found"),
        ("session list --project nothing", "path_not_found"),
        ("usage --project nothing", "path_not_found"),
        ("module add tool-x --source ./nothing", "source_not_found"),
    ],
)
def test_mistakes(amplifier: Amplifier, given: str, code: str) -> None:
    """A mistake is one document with its code, on standard error a message, and exit code 2, in every command."""
    result = amplifier(*given.split(), "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["code"] == code
    assert result.stderr


def test_a_mistake_in_a_stream_is_one_line(amplifier: Amplifier) -> None:
    """`logs --json` prints a line for each record, and an error, also about an event, before any record."""
    assert amplifier("run", "hello").returncode == 0
    for more in ([], ["--tree"]):
        result = amplifier("logs", "--json", "--event", "nothing", *more)
        assert (result.returncode, len(result.stdout.splitlines())) == (2, 1)
        assert json.loads(result.stdout)["code"] == "event_unknown"


def test_an_event_that_did_not_happen(amplifier: Amplifier) -> None:
    """An event of this product that is not in the log is no mistake: there are no lines."""
    assert amplifier("run", "hello").returncode == 0
    for event in ("tool:pre", "mcp:renamed", "policy:mode_changed"):
        result = amplifier("logs", "--event", event)
        assert (result.returncode, result.stdout) == (0, "")
