"""Wheels are built from the mirror inside a box, and what comes out of it is looked at before it is used."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository, User, WheelFromGit
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.git_mirror import GitMirror
from amplifier_digital_twin.services.wheel_file import WheelFile
from amplifier_digital_twin.services.wheels import Workshop

URL = "https://github.com/example/own"
USER = User()
BUILD = "mkdir -p dist && python3 -c 'import backend; backend.build_wheel(\"dist\")'"


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Serve a repository whose working tree and whose tag `v1` differ; return what leads a command to it."""
    folder = tmp_path / "repository"
    (folder / "packages" / "own").mkdir(parents=True)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]

    def git(*words: str) -> None:
        subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)

    backend = Path(__file__).with_name("backend.txt").read_text(encoding="utf-8")
    for place, text in ((folder, "old"), (folder / "packages" / "own", "inner")):
        (place / "backend.py").write_text(backend, encoding="utf-8")
        (place / "own.py").write_text(f"WHAT = {text!r}\n", encoding="utf-8")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("tag", "v1")
    (folder / "own.py").write_text("WHAT = 'new'\n", encoding="utf-8")
    mirror = GitMirror([Repository(folder, URL)], tmp_path / "mirror", Decisions(tmp_path / "git.jsonl"))
    await mirror.prepare()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await mirror.serve(listening)
    config = tmp_path / "gitconfig"
    config.write_text(mirror.git_config(("127.0.0.1", port)), encoding="utf-8")
    yield {"PATH": os.environ["PATH"], "HOME": USER.home, "GIT_CONFIG_GLOBAL": str(config)}
    await mirror.close()


def text_of(wheel: Path) -> str:
    """Return what the module in a wheel says."""
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        return archive.read("own.py").decode()


@pytest.mark.parametrize(
    ("ref", "subdirectory", "text"),
    [(None, ".", "new"), ("main", ".", "new"), ("v1", ".", "old"), (None, "packages/own", "inner")],
)
async def test_build(
    box: Any, environment: dict[str, str], tmp_path: Path, ref: str | None, subdirectory: str, text: str
) -> None:
    """The working tree, another ref or a folder is built, and the wheel is on the host."""
    recipe = WheelFromGit("own", ref, BUILD, "dist/*.whl", subdirectory)
    target = tmp_path / "out"
    with closing(Workshop(box, USER, environment)) as workshop:
        wheel = await workshop.wheel("own", recipe, URL, target)
    assert wheel == target / "own-1.0-py3-none-any.whl"
    assert text_of(wheel) == f"WHAT = {text!r}\n"
    with closing(Workshop(box, USER, environment)) as workshop:
        again = await workshop.wheel("own", recipe, URL, target)
    assert again == wheel
    assert WheelFile.read(wheel).version == "1.0"


@pytest.mark.parametrize(
    ("recipe", "name", "code", "words"),
    [
        (WheelFromGit("own", None, "echo why >&2; exit 3"), "own", "wheel_build_failed", "ended with 3: why"),
        (WheelFromGit("own", "gone", BUILD), "own", "wheel_build_failed", "gone"),
        (WheelFromGit("own", None, "true"), "own", "wheel_missing", "nothing found"),
        (WheelFromGit("own", None, BUILD + "; cp dist/*.whl dist/own-9-b-c.whl"), "own", "wheel_missing", "one wheel"),
        (WheelFromGit("own", None, "mkdir dist; ln -s /etc/passwd dist/x.whl"), "own", "wheel_missing", "only x.whl"),
        (WheelFromGit("own", None, BUILD), "other", "wheel_mismatch", "not of other"),
        (WheelFromGit("own", None, "mkdir dist; echo > dist/own-1-b-c-d.whl"), "own", "wheel_invalid", "read"),
        (WheelFromGit("own", "--orphan=x", BUILD), "own", "profile_invalid", "--orphan"),
        (WheelFromGit("own", None, BUILD, subdirectory="../x"), "own", "profile_invalid", "leads out"),
    ],
)
async def test_failures(
    box: Any, environment: dict[str, str], tmp_path: Path, recipe: WheelFromGit, name: str, code: str, words: str
) -> None:
    """Whatever goes wrong is an error with the reason, and leaves no wheel behind."""
    target = tmp_path / "out"
    with pytest.raises(TwinError) as caught, closing(Workshop(box, USER, environment)) as workshop:
        await workshop.wheel(name, recipe, URL, target)
    assert caught.value.code == code
    assert words in caught.value.message
    assert not list(target.glob("*")) if target.exists() else True


async def test_one_build_is_brought_out_once(
    box: Any, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels of one build come out of the twin together, each into its own folder and looked at for itself."""
    asked: list[Any] = []
    get = box.get

    async def counted(*arguments: Any) -> None:
        asked.append(arguments[0])
        await get(*arguments)

    monkeypatch.setattr(box, "get", counted)
    recipe = WheelFromGit("own", None, f"{BUILD}; cp dist/*.whl dist/other-1.0-py3-none-any.whl")
    with closing(Workshop(box, USER, environment)) as workshop:
        assert (await workshop.wheel("own", recipe, URL, tmp_path / "own")).parent == tmp_path / "own"
        with pytest.raises(TwinError, match="metadata name"):
            await workshop.wheel("other", recipe, URL, tmp_path / "other")
        with pytest.raises(TwinError, match="one wheel was expected, nothing found"):
            await workshop.wheel("third", recipe, URL, tmp_path / "third")
    assert len(asked) == 1


async def test_unserved_repository(box: Any, environment: dict[str, str], tmp_path: Path) -> None:
    """A repository that the mirror does not serve cannot be built, and the message says what to change."""
    recipe = WheelFromGit("own", None, BUILD)
    with pytest.raises(TwinError) as caught, closing(Workshop(box, USER, environment)) as workshop:
        await workshop.wheel("own", recipe, f"{URL}-extra", tmp_path)
    assert "repositories" in caught.value.message
