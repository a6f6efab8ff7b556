"""The rules of a bundle hold in a session that goes on as they did when it began."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_BUNDLE = """\
bundle: {name: mine}
includes: [{bundle: "amplifier:behaviors/logging"}, {bundle: "amplifier:behaviors/tools"}]
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers: [{module: provider-mock, config: {scenario: SCENARIO}}]
hooks:
  - {module: hooks-approval, config: {rules: [{action: process.exec, verdict: allow, reason: REASON}]}}
"""


@pytest.fixture
def write(project: Path, environment: dict[str, str]) -> Callable[[str], None]:
    """Return a function that writes a bundle of the user's own, whose model runs one command."""
    script = project / "script.yaml"
    calls = [{"name": "bash", "arguments": {"command": "echo ran"}}]
    script.write_text(json.dumps({"turns": [{"tool_calls": calls}, {"text": "Done."}]}), encoding="utf-8")
    path = Path(environment["HOME"]) / ".amplifier" / "bundles" / "mine.yaml"
    path.parent.mkdir(parents=True)

    def written(reason: str) -> None:
        text = _BUNDLE.replace("SCENARIO", str(script)).replace("REASON", reason)
        path.write_text(text, encoding="utf-8")

    return written


def _session(environment: dict[str, str]) -> str:
    (folder,) = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*")
    return folder.name


def test_what_the_users_bundle_allows_is_allowed_again(
    write: Callable[[str], None], amplifier: Amplifier, environment: dict[str, str]
) -> None:
    """A command that the bundle allowed in the first turn runs unasked after a resume as well."""
    write("mine to allow")
    assert amplifier("run", "go", "--bundle", "mine").returncode == 0
    again = amplifier("run", "go", "--resume", _session(environment))
    assert (again.returncode, again.stdout) == (0, "Done.\n"), again.stderr


def test_rules_that_nobody_stands_for_any_more_allow_nothing(
    write: Callable[[str], None], amplifier: Amplifier, environment: dict[str, str]
) -> None:
    """When the bundle has other rules by now, nobody knows who wrote the recorded ones: they do not allow."""
    write("mine to allow")
    assert amplifier("run", "go", "--bundle", "mine").returncode == 0
    write("no longer the same")
    again = amplifier("run", "go", "--resume", _session(environment))
    assert again.returncode == 3, again.stderr
