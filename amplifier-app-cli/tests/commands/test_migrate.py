"""`migrate` takes over a published home, reads it only, and leaves this home's own values alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

SECRET = "sk-ant-" + "api03-" + "Zq8wLm2t" * 11
SETTINGS = f"""\
# of the published program
bundle: {{active: anchors, added: {{team: git+https://example.com/team/bundle@main}}}}
config:
  providers:
    - {{module: provider-mock, config: {{priority: 5, responses: [From my settings.]}}}}
    - {{module: provider-anthropic, config: {{api_key: {SECRET}, default_model: claude-sonnet-4-5}}}}
overrides: {{tool-bash: {{config: {{timeout: 77}}}}}}
routing: {{matrix: economy}}
providerz: 1
"""
SESSION = "6f1c0a52-3b7e-4d0e-9a51-2f8f6f3f1b11"


@pytest.fixture
def published(tmp_path: Path, project: Path) -> Path:
    """Return a home as the published program leaves it."""
    home = tmp_path / "published"
    slug = str(project.resolve()).replace("/", "-")
    session = home / "projects" / slug / "sessions" / SESSION
    session.mkdir(parents=True)
    (home / "settings.yaml").write_text(SETTINGS)
    (home / "keys.env").write_text(f'OPENAI_API_KEY="{SECRET}x"\nEMPTY=\n')
    registry = {
        "team": {"uri": "git+https://example.com/team/bundle@main", "explicitly_requested": True},
        "mine": {"uri": "git+https://example.com/mine@main", "explicitly_requested": True},
        "secret": {"uri": "git+https://ada:hunter2hunter2@example.com/secret@main", "explicitly_requested": True},
        "part": {"uri": "git+https://example.com/part@main", "explicitly_requested": False},
        "foundation": {"uri": "git+https://example.com/foundation@main", "explicitly_requested": True},
    }
    (home / "registry.json").write_text(json.dumps({"version": 1, "bundles": registry}))
    (home / "agents").mkdir()
    (home / "agents" / "gardener.md").write_text("---\nmeta: {name: gardener, description: d}\n---\nYou garden.\n")
    (home / "skills").symlink_to(tmp_path)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hello there", "metadata": {"timestamp": "2026-05-01T10:00:00.000+00:00"}},
        {"role": "assistant", "content": [{"type": "text", "text": "Good morning."}]},
    ]
    (session / "transcript.jsonl").write_text("".join(json.dumps(message) + "\n" for message in messages))
    metadata = {
        "session_id": SESSION,
        "created": "2026-05-01T10:00:00.000000+00:00",
        "bundle": "bundle:anchors",
        "model": "mock",
        "turn_count": 1,
        "working_dir": str(project),
        "name": "a greeting",
        "own_key": {"kept": True},
    }
    (session / "metadata.json").write_text(json.dumps(metadata))
    event = {
        "ts": "2026-05-01T10:00:00.100+00:00",
        "lvl": "INFO",
        "schema": {"name": "amplifier.log", "ver": "1.0.0"},
        "event": "prompt:submit",
        "session_id": SESSION,
        "data": {"prompt": f"my key is {SECRET}"},
    }
    (session / "events.jsonl").write_text(json.dumps(event) + "\n")
    recipe = home / "projects" / slug.removeprefix("-") / "recipe-sessions" / "0123456789abcdef-20260501-100000_recipe"
    recipe.mkdir(parents=True)
    (recipe / "state.json").write_text("{}")
    return home


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _items(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return {f"{item['category']} {item['name']}": item["action"] for item in json.loads(done.stdout)["items"]}


def test_nothing_is_changed_without_yes(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """It says what it would take over, what it leaves and what differs, prints no secret, and writes nothing."""
    before = _files(published)
    done = amplifier("migrate", str(published))
    assert done.returncode == 0, done.stderr
    assert "give --yes" in done.stderr
    assert "OPENAI_API_KEY" in done.stdout
    assert "amplifier policy list" in done.stdout
    assert SECRET[:20] not in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert _files(published) == before
    assert not (tmp_path / "home" / ".amplifier").exists()


def test_everything_is_taken_over_once(amplifier: Amplifier, published: Path, project: Path) -> None:
    """With --yes it is taken over, a second run finds nothing to do, and the published home is as it was."""
    before = _files(published)
    slug = str(project.resolve()).replace("/", "-")
    items = _items(amplifier("migrate", str(published), "--yes", "--json"))
    taken = {name for name, action in items.items() if action == "take over"}
    assert taken == {
        "keys OPENAI_API_KEY",
        "settings bundle.active",
        "settings bundle.added.team",
        "settings config.providers.provider-mock",
        "settings config.providers.provider-anthropic",
        "settings overrides.tool-bash.config.timeout",
        "settings routing.matrix",
        "bundles mine",
        "agents gardener.md",
        f"sessions {slug}/{SESSION}",
        f"recipe-sessions {slug.removeprefix('-')}/0123456789abcdef-20260501-100000_recipe",
    }
    left = {name for name, action in items.items() if action == "leave"}
    assert left == {"keys EMPTY", "settings providerz", "bundles foundation", "bundles secret", "skills skills"}
    again = _items(amplifier("migrate", str(published), "--yes", "--json"))
    assert {name for name, action in again.items() if action == "keep"} == {*taken, "bundles team"}
    assert _files(published) == before


def test_settings_and_keys_work(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """The active bundle and the provider of the settings are used; a key in clear moves to the keys."""
    amplifier("migrate", str(published), "--yes")
    home = tmp_path / "home" / ".amplifier"
    assert SECRET not in (home / "settings.yaml").read_text()
    kept = json.loads(amplifier("keys", "list", "--json").stdout)
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} <= {key["name"] for key in kept}
    assert (home / "keys.env").stat().st_mode & 0o077 == 0
    done = amplifier("run", "hello", "-p", "mock")
    assert "From my settings." in done.stdout, done.stderr


@pytest.mark.parametrize(
    "uri",
    [
        "git+https://0123456789abcdef0123@example.com/org/bundle@main",
        "git+https://ada:0123456789abcdef0123@example.com/org/bundle@main",
        "https://example.com/bundle.zip?access_token=0123456789abcdef0123",
    ],
)
def test_no_address_with_credentials_is_copied(amplifier: Amplifier, published: Path, tmp_path: Path, uri: str) -> None:
    """Neither a bundle nor a setting brings a password or a token in an address into the settings."""
    (published / "settings.yaml").write_text(
        json.dumps({"bundle": {"added": {"a": uri}}, "modules": {"tools": [{"module": "tool-x", "source": uri}]}})
    )
    registry = {"version": 1, "bundles": {"b": {"uri": uri, "explicitly_requested": True}}}
    (published / "registry.json").write_text(json.dumps(registry))
    items = _items(amplifier("migrate", str(published), "--yes", "--json"))
    assert items["settings bundle.added.a"] == items["settings modules.tools.tool-x"] == items["bundles b"] == "leave"
    assert "0123456789abcdef0123" not in str(_files(tmp_path / "home"))


def test_the_topic_of_notifications_does_not_become_a_setting(
    amplifier: Amplifier, published: Path, tmp_path: Path
) -> None:
    """Whoever knows it reads the notices: it is left, with the command that stores it as a key."""
    (published / "settings.yaml").write_text("config: {notifications: {ntfy: {enabled: true, topic: my-4711}}}\n")
    items = _items(amplifier("migrate", str(published), "--yes", "--json"))
    assert items["settings config.notifications.ntfy.topic"] == "leave"
    assert "my-4711" not in (tmp_path / "home" / ".amplifier" / "settings.yaml").read_text()


@pytest.mark.parametrize("bundle", ["bundle:anchors", "{folder}/bundle.yaml", "git+https://example.com/bundle@main"])
def test_a_session_brings_nothing_that_decides(
    amplifier: Amplifier, published: Path, tmp_path: Path, project: Path, bundle: str
) -> None:
    """Neither rules nor settings, no plan, no permission mode, and no bundle but by its name."""
    [session] = published.glob("projects/*/sessions/*")
    for name in ("policy.yaml", "settings.yaml", "record.json", "waiting-calls.json"):
        (session / name).write_text("{}")
    (session / "checkpoints").mkdir()
    (session / "checkpoints" / "index.jsonl").write_text("{}")
    metadata = json.loads((session / "metadata.json").read_text())
    named = bundle.format(folder=tmp_path)
    for name in ("metadata.json", "metadata.json.backup"):
        (session / name).write_text(json.dumps({**metadata, "permission_mode": "auto", "bundle": named}))
    assert _items(amplifier("migrate", str(published), "--yes", "--json"))[
        f"sessions {session.parent.parent.name}/{SESSION}"
    ]
    [taken] = (tmp_path / "home" / ".amplifier").glob("projects/*/sessions/*")
    assert {path.name for path in taken.rglob("*") if path.is_file()} == {
        *("transcript.jsonl", "metadata.json", "metadata.json.backup", "events.jsonl"),
    }
    for name in ("metadata.json", "metadata.json.backup"):
        kept = json.loads((taken / name).read_text())
        assert "permission_mode" not in kept
        assert kept.get("bundle") == (named if named == "bundle:anchors" else None)
        assert kept["own_key"] == {"kept": True}


def test_sessions_of_a_linked_project_are_left(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """A link in the folder of projects leads to files that are no part of the home."""
    (tmp_path / "elsewhere" / "sessions" / "s").mkdir(parents=True)
    (published / "projects" / "linked").symlink_to(tmp_path / "elsewhere")
    assert _items(amplifier("migrate", str(published), "--yes", "--json"))["sessions linked/"] == "leave"
    assert not (tmp_path / "home" / ".amplifier" / "projects" / "linked").exists()


def test_own_values_are_kept(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """What is set here, a setting, a key or a file, is not replaced."""
    home = tmp_path / "home" / ".amplifier"
    (home / "agents").mkdir(parents=True, mode=0o700)
    (home / "settings.yaml").write_text("bundle: {active: minimal}\n")
    (home / "keys.env").write_text('OPENAI_API_KEY="mine"\n')
    (home / "agents" / "gardener.md").write_text("mine")
    items = _items(amplifier("migrate", str(published), "--yes", "--json"))
    assert items["settings bundle.active"] == items["keys OPENAI_API_KEY"] == items["agents gardener.md"] == "keep"
    assert "active: minimal" in (home / "settings.yaml").read_text()
    assert "mine" in (home / "keys.env").read_text()


def test_published_sessions_are_listed_shown_and_resumed(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """A session of the published program goes on here, with its name, its messages and without its secrets."""
    amplifier("migrate", str(published), "--yes")
    [row] = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    assert (row["id"], row["name"]) == (SESSION, "a greeting")
    shown = amplifier("session", "show", SESSION, "--with-transcript")
    assert "Good morning." in shown.stdout
    done = amplifier("run", "and now?", "--resume", SESSION, "-B", "minimal")
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "home").rglob(SESSION)
    messages = [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[0]["content"] == "hello there"
    assert json.loads((folder / "metadata.json").read_text())["own_key"] == {"kept": True}
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_same_home_is_read_where_it_is(amplifier: Amplifier, published: Path, tmp_path: Path) -> None:
    """A published home that is this home needs nothing: its session is listed, and --yes changes no file."""
    home = tmp_path / "home" / ".amplifier"
    os.rename(published, home)
    before = _files(home)
    items = _items(amplifier("migrate", "--yes", "--json"))
    assert "take over" not in items.values()
    after = _files(home)
    assert {path: after[path] for path in before} == before


def test_a_part_of_a_session_is_completed(amplifier: Amplifier, published: Path, tmp_path: Path, project: Path) -> None:
    """What an interrupted run has left of a session is copied again."""
    slug = str(project.resolve()).replace("/", "-")
    partial = tmp_path / "home" / ".amplifier" / "projects" / slug / "sessions" / f".migrating-{SESSION}"
    partial.mkdir(parents=True)
    (partial / "transcript.jsonl").write_text("half")
    amplifier("migrate", str(published), "--yes")
    assert not partial.exists()
    assert "Good morning." in (partial.parent / SESSION / "transcript.jsonl").read_text()


@pytest.mark.parametrize("source", ["missing", "home"])
def test_impossible_sources(amplifier: Amplifier, tmp_path: Path, source: str) -> None:
    """A missing folder, and one that this home is inside of, are refused with what to do."""
    (tmp_path / "home" / ".amplifier").mkdir()
    done = amplifier("migrate", str(tmp_path / source))
    assert done.returncode == 1
    assert "name the home" in done.stderr or "inside of each other" in done.stderr
