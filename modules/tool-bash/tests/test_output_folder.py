"""Files for output take no more room than they may, and temporary ones go."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_module_tool_bash.output import OutputFolder


def _fill(folder: OutputFolder, size: int, age: int, *, is_open: bool = False) -> Path:
    path, file = folder.create("stdout")
    os.write(file, b"x" * size)
    os.close(file)
    os.utime(path, ns=(10**18 - age, 10**18 - age))
    if not is_open:
        folder.release(path)
    return path


def test_the_oldest_go_first(tmp_path: Path) -> None:
    """Beyond the limit the oldest files are removed, and nothing that is not ours."""
    folder = OutputFolder(tmp_path, limit=250)
    foreign = tmp_path / "notes.txt"
    foreign.write_bytes(b"x" * 1000)
    oldest = _fill(folder, 100, age=8)
    older = _fill(folder, 100, age=7)
    young = _fill(folder, 100, age=1)
    folder.close()
    assert [path.exists() for path in (foreign, oldest, older, young)] == [True, False, True, True]


def test_files_still_written_to_stay(tmp_path: Path) -> None:
    """A file in use is kept even when there is no room for it."""
    folder = OutputFolder(tmp_path, limit=50)
    written = _fill(folder, 100, age=9, is_open=True)
    ended = _fill(folder, 100, age=1)
    _fill(folder, 1, age=0)
    assert written.exists()
    assert not ended.exists()


def test_a_temporary_folder_goes(tmp_path: Path) -> None:
    """Without a folder of its own, output is in a temporary one until the end, and again when there is more."""
    folder = OutputFolder()
    first = _fill(folder, 1, age=0)
    assert first.exists()
    folder.close()
    assert not first.parent.exists()
    second = _fill(folder, 1, age=0)
    assert second.exists()
    folder.close()
    assert not second.parent.exists()


def test_nothing_is_made_without_need(tmp_path: Path) -> None:
    """A folder nobody writes to does not come into being, and can be closed."""
    OutputFolder(tmp_path / "out").close()
    assert not (tmp_path / "out").exists()
