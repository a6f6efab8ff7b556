"""Real git repositories, and real sessions whose model follows a script."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_testing.loop.fakes import PlainTool

MakeSession = Callable[..., AmplifierSession]


class Repository:
    """A repository on disk, driven by git itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *arguments: str) -> str:
        """Run git here and return what it printed."""
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def write(self, name: str, text: str = "text\n") -> Path:
        """Write a file, with the folders it needs."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def commit(self, subject: str, *names: str) -> None:
        """Commit the named files, or nothing at all."""
        for name in names:
            self.write(name)
            self.git("add", name)
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)


@pytest.fixture(autouse=True)
def _plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git know nothing of the machine it runs on: no settings, and no repository around the test's folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A Tester")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tester@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.resolve()))


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[..., Repository]:
    """Give `make_repository(name="project")`: an empty repository whose branch is `main`."""

    def make(name: str = "project", *options: str) -> Repository:
        path = tmp_path.resolve() / name
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", *options, str(path)], check=True)
        return Repository(path)

    return make


@pytest.fixture
def repository(make_repository: Callable[..., Repository]) -> Repository:
    """Return a repository with one commit."""
    made = make_repository()
    made.commit("Begin", "README.md")
    return made


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Give `fake_git(script)`: a shell script that stands for git, run in a folder of its own, which is returned."""

    def make(script: str) -> Path:
        # Beside the folder that is asked about: programs inside of that are not run.
        folder = tmp_path.with_name(f"{tmp_path.name}-fake")
        folder.mkdir()
        program = folder / "git"
        # The config of the repository and the user's are read before git is asked anything.
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *" config "*) exit 0;; esac\ncd {folder}\n{script}', encoding="utf-8"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return make


@pytest.fixture
def make_session(scripted_session: MakeSession) -> MakeSession:
    """Give `make_session(replies, hooks, working_dir, **options)`: a session that works in a folder.

    A reply that is None is a call of `touch`, which makes a file there.
    """

    def make(
        replies: Sequence[str | None], hooks: list[dict[str, Any]], working_dir: Path, **options: Any
    ) -> AmplifierSession:
        answers: list[Any] = [[("touch", {})] if reply is None else reply for reply in replies]
        touch = PlainTool("touch", lambda _: Path(working_dir, "touched").touch())
        made = scripted_session(*answers, hooks=hooks, mounted=[touch], **options)
        made.coordinator.register_capability("session.working_dir", str(working_dir))
        made.coordinator.register_policy("test", lambda action, details: "allow")
        return made

    return make
