"""The hint that the folders in a folder are unrelated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from amplifier_digital_twin.spreading import spread


def _attributes(folder: Path) -> str:
    done = subprocess.run(["lsattr", "-d", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the file system of {folder} has no attributes: {done.stderr.strip()}")
    return done.stdout.split()[0]


def test_the_hint_is_set_and_other_attributes_stay(tmp_path: Path) -> None:
    """Where a file system has the hint, a folder gets it, keeps what else it has, and a second time changes nothing."""
    if subprocess.run(["chattr", "+dT", str(tmp_path)], capture_output=True, check=False).returncode != 0:
        pytest.skip("the file system of temporary files has no such hint")
    subprocess.run(["chattr", "-T", str(tmp_path)], check=True)
    before = _attributes(tmp_path)
    for _ in range(2):
        spread(tmp_path)
        assert "T" in _attributes(tmp_path)
        assert _attributes(tmp_path).replace("T", "-") == before


def test_without_the_hint_nothing_happens(tmp_path: Path) -> None:
    """A folder of a file system without attributes, a file, a link and nothing at all are left alone."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "file").write_bytes(b"")
    for path in (Path("/proc"), tmp_path / "file", tmp_path / "link", tmp_path / "absent"):
        spread(path)
    assert (tmp_path / "file").read_bytes() == b""
    assert list(target.iterdir()) == []
