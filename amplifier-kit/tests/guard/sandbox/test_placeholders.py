"""Placeholders are removed by the last command that needs them."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.control_files import StandIn
from amplifier_kit.guard.sandbox import placeholders
from amplifier_kit.guard.sandbox.placeholders import Placeholder, Placeholders, is_placeholder


def test_two_threads_release_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that removes its placeholders does not keep another one from removing its own in the same folder."""
    first, second = (
        Placeholders([Placeholder(str(tmp_path / name), b"", str(tmp_path), str(tmp_path))]) for name in "ab"
    )
    other = threading.Thread(target=second.release)
    is_ours = placeholders._is_placeholder_file

    def check(*arguments: Any) -> bool:
        if other.ident is None:  # the first one is checked, with its folder locked
            other.start()
            other.join(0.3)  # it waits for us, or has given up long before
        return is_ours(*arguments)

    for lock in second._locks:
        fcntl.flock(lock, fcntl.LOCK_UN)  # its command has ended too
    monkeypatch.setattr(placeholders, "_is_placeholder_file", check)
    first.release()
    other.join()
    assert list(tmp_path.iterdir()) == []


def test_a_placeholder_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """A folder that the user made after that is not taken for a placeholder."""
    path = tmp_path / "hooks"
    held = Placeholders([Placeholder(str(path), root=str(tmp_path))])
    path.rmdir()
    held.release()
    path.mkdir()
    assert not is_placeholder(str(path), StandIn(None))
