"""A socket has a name that the system takes, wherever the temporary folder is."""

from __future__ import annotations

import shutil
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from amplifier_kit.guard.processes.launch import make_socket_folder


@pytest.mark.parametrize("depth", [0, 20, 60, 200])
def test_a_socket_can_be_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """However deep the temporary folder lies, a socket can be bound in a folder that is the user's alone."""
    deep = tmp_path / ("d" * depth)
    deep.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = make_socket_folder("amplifier-", "s")
    try:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(folder / "s"))
        assert (folder / "s").exists()
    finally:
        shutil.rmtree(folder)
    assert list(deep.iterdir()) == []  # and nothing is left where it was too deep


def test_the_temporary_folder_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder that the user has chosen, and that is not too deep, is the one."""
    with tempfile.TemporaryDirectory(prefix="t-") as chosen:
        monkeypatch.setattr(tempfile, "tempdir", chosen)
        assert make_socket_folder("amplifier-", "s").parent == Path(chosen)
