"""Repositories made for a test, and mirrors that real git clients talk to on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.git_mirror import GitMirror

Git = Callable[..., str]
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
WHO = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git in a folder, with no settings but those given; return what it says."""
    home = tmp_path / "maker"
    home.mkdir()

    def run(folder: Path, *arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
        environment = CLEAN | WHO | {"HOME": str(home)}
        done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, check=False)
        assert done.returncode in accepted, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    return run


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """Make a repository with two commits on `main`, a branch `other` and an annotated tag `v1`."""
    folder = tmp_path / "source tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    (folder / "deep").mkdir()
    (folder / "deep" / "b.txt").write_text("deep\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "-a", "v1", "-m", "version one")
    git(folder, "branch", "other")
    (folder / "a.txt").write_text("two\n", encoding="utf-8")
    git(folder, "commit", "-q", "-a", "-m", "second")
    return folder


class Served:
    """A mirror that answers, and clients inside a home of their own that only know the public address."""

    def __init__(self, mirror: GitMirror, port: int, home: Path, log: Path) -> None:
        self.mirror = mirror
        self.base = f"http://127.0.0.1:{port}"
        self.home = home
        self._log = log
        home.mkdir(parents=True, exist_ok=True)
        config = home / "system.gitconfig"
        config.write_text(mirror.git_config(("127.0.0.1", port)), encoding="utf-8")
        self.environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "HOME": str(home),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_SYSTEM": str(config),
            "GIT_CONFIG_GLOBAL": str(home / "none"),
            # Where nothing answers: whatever does not go to the mirror fails, and no test asks the world.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
            "http_proxy": "http://127.0.0.1:9",
            "GIT_SSH_COMMAND": "false",
        }

    async def run(self, *argv: str, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a program; return its code and what it says."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.home,
            env=self.environment | dict(variables or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode("utf-8", "replace")

    async def git(self, *arguments: str) -> str:
        """Run git, which must succeed; return what it says."""
        code, said = await self.run("git", *arguments)
        assert code == 0, said
        return said.strip()

    def decisions(self) -> list[dict[str, Any]]:
        """Return what was logged."""
        if not self._log.is_file():
            return []
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Serve repositories."""
    open_mirrors: list[GitMirror] = []

    async def start(*repositories: Repository) -> Served:
        number = len(open_mirrors)
        log = tmp_path / f"decisions{number}.jsonl"
        mirror = GitMirror(repositories, tmp_path / f"mirror{number}", Decisions(log))
        open_mirrors.append(mirror)
        await mirror.prepare()
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        await mirror.serve(listening)
        return Served(mirror, port, tmp_path / f"home{number}", log)

    yield start
    for mirror in open_mirrors:
        await mirror.close()
