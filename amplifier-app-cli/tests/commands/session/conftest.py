"""Sessions on disk, and a way to give a command of the group."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.commands.session import session as session_group
from amplifier_foundation.paths import Home


@pytest.fixture
def home(environment: dict[str, str]) -> Home:
    """Return the home that the program uses."""
    return Home(Path(environment["HOME"]) / ".amplifier")


@pytest.fixture
def give(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that gives a command of the group in this process; without a terminal."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(session_group, list(arguments), prog_name="amplifier session")

    return run


@pytest.fixture
def made(project: Path, home: Home) -> Callable[..., Path]:
    """Return a function that makes a session as the program leaves it, and returns its folder."""

    def make(session_id: str, *prompts: str, age: float = 0, **facts: Any) -> Path:
        folder = home.sessions(Path(facts.get("working_dir", project))) / session_id
        folder.mkdir(parents=True)
        lines: list[dict[str, Any]] = []
        for prompt in prompts:
            lines.append(
                {"role": "user", "content": prompt, "metadata": {"timestamp": "2026-01-01T00:00:00.000+00:00"}}
            )
            lines.append({"role": "assistant", "content": [{"type": "text", "text": f"An answer to {prompt}"}]})
        transcript = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "transcript.jsonl").write_text(transcript, encoding="utf-8")
        metadata = {
            "session_id": session_id,
            "created": "2026-01-01T00:00:00+00:00",
            "bundle": "bundle:garden",
            "model": "provider-mock/m",
            "turn_count": len(prompts),
            "working_dir": str(project),
            **facts,
        }
        path = folder / "metadata.json"
        path.write_text(json.dumps(metadata), encoding="utf-8")
        at = path.stat().st_mtime - age
        os.utime(path, (at, at))
        return folder

    return make
