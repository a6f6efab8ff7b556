"""A home, a project, policy files in them, and sessions with logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.log.writer import SessionLog


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home in a place with a space and an accent in its name."""
    folder = tmp_path / "hôme of a user" / ".amplifier"
    folder.mkdir(parents=True)
    return Home(folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project folder."""
    folder = tmp_path / "prøject"
    (folder / ".amplifier").mkdir(parents=True)
    return folder


@pytest.fixture
def files(home: Home, project: Path) -> dict[str, Path]:
    """Return where the policy files are, by scope."""
    return {
        "user": home.path / "policy.yaml",
        "project": project / ".amplifier/policy.yaml",
        "local": project / ".amplifier/policy.local.yaml",
    }


@pytest.fixture
def load(home: Home, project: Path, files: dict[str, Path]) -> Callable[..., Permissions]:
    """Return a function that writes policy files by scope and loads all rules."""

    def loaded(is_trusted: bool = False, **texts: str) -> Permissions:
        for scope, text in texts.items():
            files[scope].write_text(text, encoding="utf-8")
        return Permissions.load(home, project, is_trusted=is_trusted)

    return loaded


@pytest.fixture
def trusted(home: Home, project: Path) -> TrustStore:
    """Return the record of trusted folders, with the project in it."""
    store = TrustStore(home)
    store.trust(project)
    return store


@pytest.fixture
def session(home: Home, project: Path) -> Callable[..., Path]:
    """Return a function that makes a session with these events in its log, and returns its folder."""

    def made(*events: tuple[str, dict[str, Any]], session_id: str = "one", working_dir: Path = project) -> Path:
        folder = home.sessions(working_dir) / session_id
        with SessionLog(folder) as log:
            for event, data in events:
                log.write({"event": event, "session_id": session_id, "data": data})
        metadata = {"session_id": session_id, "working_dir": str(working_dir), "created": "2026-01-01T00:00:00+00:00"}
        (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        return folder

    return made
