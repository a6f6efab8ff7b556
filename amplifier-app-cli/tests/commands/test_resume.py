"""`amplifier continue`, `amplifier resume` and `run --resume`, as real processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_BUNDLE = """\
bundle: {name: mine}
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers: [{module: provider-mock, config: {responses: [One., Two.]}}]
hooks: [{module: hooks-logging}]
"""


def _run(amplifier: Amplifier, *arguments: str) -> str:
    result = amplifier("run", "hello", "--output-format", "json", *arguments)
    assert result.returncode == 0, result.stderr
    return str(json.loads(result.stdout)["session_id"])


def _prompts(amplifier: Amplifier, session: str) -> list[str]:
    lines = amplifier("logs", session, "--json", "--event", "prompt:submit").stdout.splitlines()
    return [json.loads(line)["data"]["prompt"] for line in lines]


def _notes(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("note: ")]


def test_continue_goes_on_with_the_newest(amplifier: Amplifier) -> None:
    """The newest session of the project gets the prompt, under its own id."""
    _run(amplifier)
    newest = _run(amplifier)
    result = amplifier("continue", "and now?", "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.returncode, records[0]["session_id"], records[-1]["session_id"]) == (0, newest, newest)
    assert _prompts(amplifier, newest) == ["hello", "and now?"]


@pytest.mark.parametrize("command", [("resume",), ("session", "resume"), ("run", "--resume")])
def test_a_session_by_its_beginning(amplifier: Amplifier, command: tuple[str, ...]) -> None:
    """The beginning of an id names the session, and the prompt may be piped in."""
    session = _run(amplifier)
    _run(amplifier)
    assert amplifier(*command, session[:13], "again", "-q").returncode == 0
    assert amplifier(*command, session[:13], stdin="and from the pipe").returncode == 0
    assert _prompts(amplifier, session) == ["hello", "again", "and from the pipe"]


def test_a_session_by_its_name(amplifier: Amplifier) -> None:
    """A session that was given a name is found by it."""
    session = _run(amplifier)
    assert amplifier("session", "rename", session, "My work").returncode == 0
    assert amplifier("run", "--resume", "My work", "again").returncode == 0
    assert len(_prompts(amplifier, session)) == 2


def test_several_sessions_could_be_meant(amplifier: Amplifier, project: Path) -> None:
    """When a name fits several, nothing is run and all of them are listed with their full ids."""
    sessions = [_run(amplifier), _run(amplifier)]
    for metadata in project.parent.rglob("metadata.json"):  # as two programs may have named them
        metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "name": "twin"}))
    result = amplifier("run", "--resume", "twin", "again", "--output-format", "json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error_type"] == "session_ambiguous"
    assert all(session in result.stderr for session in sessions)
    assert [len(_prompts(amplifier, session)) for session in sessions] == [1, 1]


def test_nothing_to_go_on_with(amplifier: Amplifier) -> None:
    """Without a session, or without a terminal to choose one at, the program says what to do."""
    assert "amplifier run" in amplifier("continue", "x").stderr
    assert amplifier("resume", "nothing", "x").returncode == 2
    _run(amplifier)
    asked = amplifier("resume", stdin="a prompt")
    assert asked.returncode == 2
    assert "session list" in asked.stderr


def test_a_session_that_did_not_change_has_no_notes(amplifier: Amplifier, project: Path) -> None:
    """What the choice of a provider put into the record is not a difference, with or without a bundle of the user."""
    for arguments in ([], ["--bundle", "bundle.yaml"]):
        (project / "bundle.yaml").write_text(_BUNDLE)
        session = _run(amplifier, *arguments)
        result = amplifier("resume", session, "again")
        assert result.returncode == 0, result.stderr
        assert _notes(result) == []
        assert "as recorded with the session" in result.stderr


def test_several_providers_have_no_notes(amplifier: Amplifier, project: Path) -> None:
    """With a choice to make among providers, resuming makes the same one without a message."""
    two = "[{module: provider-mock, id: a, config: {responses: [A]}}, {module: provider-mock, id: b}]"
    bundle = _BUNDLE.replace("[{module: provider-mock, config: {responses: [One., Two.]}}]", two)
    (project / "bundle.yaml").write_text(bundle)
    session = _run(amplifier, "--bundle", "bundle.yaml")
    assert _notes(amplifier("resume", session, "again")) == []


def test_a_change_of_the_model_is_one_note(amplifier: Amplifier, project: Path) -> None:
    """A model that settings name since is reported as one difference, also when quiet, and the recorded one answers."""
    session = _run(amplifier)
    folder = project / ".amplifier"
    folder.mkdir()
    (folder / "settings.yaml").write_text("overrides: {provider-mock: {config: {default_model: other}}}\n")
    result = amplifier("resume", session, "again", "--quiet")
    [note] = _notes(result)
    assert "default_model" in note
    assert "'other' now" in note
    assert result.stderr.strip() == note
    assert result.stdout.count("\n") == 1


def test_another_bundle_by_force(amplifier: Amplifier, project: Path) -> None:
    """With --force-bundle the named bundle answers, and the difference is reported."""
    session = _run(amplifier)
    (project / "bundle.yaml").write_text(_BUNDLE)
    result = amplifier("resume", session, "again", "--force-bundle", "bundle.yaml")
    assert (result.returncode, result.stdout) == (0, "One.\n"), result.stderr
    assert any("mine" in note for note in _notes(result))


def test_a_provider_for_one_turn(amplifier: Amplifier, project: Path) -> None:
    """A provider that is given when a session is resumed answers that turn; the record stays what it was."""
    both = (f"{{module: provider-mock, id: {name.lower()}, config: {{responses: [{name}.]}}}}" for name in "AB")
    two = f"[{', '.join(both)}]"
    (project / "bundle.yaml").write_text(
        _BUNDLE.replace("[{module: provider-mock, config: {responses: [One., Two.]}}]", two)
    )
    session = _run(amplifier, "--bundle", "bundle.yaml")
    assert amplifier("resume", session, "x", "--provider", "b").stdout == "B.\n"
    assert amplifier("resume", session, "x").stdout == "A.\n"
