"""What was found out about the machine is remembered under everything that it depends on."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_digital_twin.remembered import Remembered, file_facts


def test_answers_belong_to_their_facts(tmp_path: Path) -> None:
    """An answer is found under exactly the facts it was kept under."""
    remembered = Remembered(tmp_path / "answers")
    assert remembered.get("a", 1) is None
    remembered.put("yes", "a", 1)
    assert Remembered(tmp_path / "answers").get("a", 1) == "yes"
    assert remembered.get("a", 2) is None
    assert remembered.get("a") is None


def test_a_place_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    """Without a folder nothing is remembered, and nothing fails."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    remembered = Remembered(tmp_path / "file" / "answers")
    remembered.put("yes", "a")
    assert remembered.get("a") is None


def test_old_answers_go(tmp_path: Path) -> None:
    """Answers of former boots do not pile up."""
    remembered = Remembered(tmp_path)
    for number in range(80):
        remembered.put("yes", number)
        for path in tmp_path.iterdir():
            os.utime(path, (path.stat().st_mtime - 1,) * 2)
    assert len(list(tmp_path.iterdir())) == 64
    assert remembered.get(79) == "yes"
    assert remembered.get(0) is None


def test_another_file_is_another_fact(tmp_path: Path) -> None:
    """A file that was replaced is not the one that was asked."""
    path = tmp_path / "program"
    assert file_facts(str(path)) == (str(path),)
    path.write_text("one", encoding="utf-8")
    before = file_facts(str(path))
    assert file_facts(str(path)) == before
    (tmp_path / "other").write_text("two!", encoding="utf-8")
    (tmp_path / "other").replace(path)
    assert file_facts(str(path)) != before
