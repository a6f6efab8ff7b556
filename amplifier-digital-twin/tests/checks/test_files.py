"""Files of a twin."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest

from amplifier_digital_twin.checks import files, inside
from amplifier_digital_twin.checks.files import check_files
from amplifier_digital_twin.profile.model import FileExpectation, User


async def _problem(twin: Any, path: str = "~/file", **parts: Any) -> str:
    return "; ".join(await check_files([FileExpectation(path, **parts)], twin, User()))


@pytest.fixture
def file(twin: Any) -> Any:
    """Make a file to look at."""
    path = twin.home / "file"
    path.write_text("first line\nsecond line\n", encoding="utf-8")
    path.chmod(0o640)
    return path


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"contains": "second"},
        {"matches": "^second"},
        {"mode": 0o640},
        {"sha256": hashlib.sha256(b"first line\nsecond line\n").hexdigest()},
    ],
)
async def test_files_as_expected(twin: Any, file: Any, parts: dict[str, Any]) -> None:
    """Each expectation by itself holds."""
    assert await _problem(twin, **parts) == ""


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"exists": False}, "is there, and must not be"),
        ({"contains": "third"}, "does not contain 'third'"),
        ({"matches": "^line"}, "nothing in it matches"),
        ({"mode": 0o644}, "permissions are 0640, not 0644"),
        ({"sha256": "0" * 64}, "its SHA-256 is"),
    ],
)
async def test_files_not_as_expected(twin: Any, file: Any, parts: dict[str, Any], words: str) -> None:
    """Each expectation can fail, and says how."""
    assert words in await _problem(twin, **parts)


async def test_a_missing_file(twin: Any) -> None:
    """What is not there fails, or holds where it must not be there."""
    assert "it is not there" in await _problem(twin)
    assert await _problem(twin, exists=False) == ""
    assert "it is not there" in await _problem(twin, "~/*.txt", contains="x")


async def test_links_are_not_followed(twin: Any, file: Any) -> None:
    """A link to a file that would be as expected is no such file."""
    os.symlink("file", twin.home / "link")
    assert "it is a link, not a file" in await _problem(twin, "~/link", contains="first")
    assert await _problem(twin, "~/link") == ""


async def test_one_of_several_is_enough(twin: Any, file: Any) -> None:
    """A pattern holds when one of the files it finds is as expected."""
    (twin.home / "file2").write_text("other", encoding="utf-8")
    assert await _problem(twin, "~/file*", contains="other") == ""


async def test_folders_exist(twin: Any) -> None:
    """A folder is something that is there, but has no content."""
    (twin.home / "folder").mkdir()
    assert await _problem(twin, "~/folder") == ""
    assert "it is a folder, not a file" in await _problem(twin, "~/folder", contains="x")


async def test_too_much_exists_but_is_not_read(twin: Any, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large is there; nothing is said about what is in it."""
    real = inside.find_inside
    monkeypatch.setattr(files, "find_inside", lambda twin, user, path: real(twin, user, path, 3))
    assert await _problem(twin) == ""
    assert "must not be" in await _problem(twin, exists=False)
    assert "it cannot be looked at" in await _problem(twin, contains="first")


async def test_a_twin_that_is_gone_is_a_problem(twin: Any) -> None:
    """A file of a twin that does not run is not a file that is absent."""
    twin.is_running = False
    assert "it cannot be looked at" in await _problem(twin, exists=False)
