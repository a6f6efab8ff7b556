"""A session's folder that goes away while the session runs."""

import shutil
import time
from pathlib import Path

import pytest

from amplifier_kit.log.writer import SessionLog

_RECORD = {"lvl": "INFO", "schema": {"name": "amplifier.log", "ver": "1.0.0"}, "event": "a:b", "data": {}}


def test_every_line_after_the_folder_is_gone_is_counted_and_none_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Many lines in quick succession into a removed folder: no exception reaches the session, one message says so."""
    folder = tmp_path / "session"
    log = SessionLog(folder)
    log.write(dict(_RECORD))
    shutil.rmtree(folder)
    time.sleep(0.2)  # longer than the log trusts its file without looking
    for _ in range(20):
        log.write(dict(_RECORD))
    log.close()
    said = capsys.readouterr().err
    assert said.count("cannot write") == 1
    assert "it ends with 20 lines lost" in said
    assert not folder.exists()
