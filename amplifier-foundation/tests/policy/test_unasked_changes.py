"""What a turn in auto mode changed of the files that other programs run."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_foundation.policy.unasked_changes import changes, states


def test_a_change_is_not_hidden_by_setting_the_time_back(tmp_path: Path) -> None:
    """Neither its size nor its time of modification has to tell a change."""
    file = tmp_path / ".envrc"
    file.write_text("echo one", encoding="utf-8")
    before, times = states([tmp_path]), file.stat()
    file.write_text("echo two", encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changes(before, states([tmp_path])) == [file]
