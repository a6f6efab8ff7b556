"""A session reads what its bundles bring, and nothing else of where they lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime


@pytest.fixture
def runtime(tmp_path: Path) -> SessionRuntime:
    """Return a session of a bundle that lies in a folder with other things."""
    for name in ("bundle/context/house.md", "bundle/skills/x/SKILL.md", "bundle/private.txt", "project/@odd/file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    prepared = Prepared.from_plan({"session": {}}, tmp_path / "home", tmp_path / "project")
    composed = replace(prepared.composed, namespaces={"house": str(tmp_path / "bundle")})
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
    return SessionRuntime(replace(prepared, composed=replace(composed, plan=plan)))


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("@house:context/house.md", "allow"),
        ("@house:skills/x", "allow"),
        ("@house:private.txt", "deny"),
        ("@house:context/../private.txt", "deny"),
        ("@nobody:context/house.md", "deny"),
        ("@odd/file", "allow"),
        ("../bundle/context/house.md", "allow"),
        ("../bundle/private.txt", "deny"),
    ],
)
def test_what_a_bundle_brings_may_be_read(runtime: SessionRuntime, path: str, verdict: str) -> None:
    """Texts and skills of a bundle are read unasked, by mention or by path; the rest of its folder is not."""
    details = {"tool_name": "read_file", "tool_input": {"file_path": path}}
    assert runtime.permissions.policy("filesystem.read", details)[0] == verdict


def test_what_a_bundle_brings_is_not_written(runtime: SessionRuntime) -> None:
    """Reading is all."""
    details = {"tool_name": "write_file", "tool_input": {"file_path": "@house:context/house.md"}}
    assert runtime.permissions.policy("filesystem.write", details)[0] == "deny"


def test_what_commands_printed_may_be_read(runtime: SessionRuntime) -> None:
    """The files of long output lie in the session's folder; its record is asked for, and nothing else of it is read."""
    given = {"command-output/1.txt": "allow", "transcript.jsonl": "ask", "../other/events.jsonl": "ask", "..": "ask"}
    for name, verdict in {**given, "checkpoints/1": "deny", "settings.yaml": "deny", "../..": "deny"}.items():
        details = {"tool_name": "read_file", "tool_input": {"file_path": str(runtime.folder / name)}}
        assert runtime.permissions.policy("filesystem.read", details)[0] == verdict
