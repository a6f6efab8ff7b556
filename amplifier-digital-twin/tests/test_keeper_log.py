"""What a keeper writes to its standard streams is masked before it is in the keeper's log."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

TOKEN = "ghp_" + "Ab3dE6gH9j" * 4
PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from amplifier_digital_twin.keeper import _write_to
_write_to(Path(sys.argv[1]))
print("started with", sys.argv[2])
os.write(2, f"raw {sys.argv[2][:9]}".encode())
os.write(2, f"{sys.argv[2][9:]} done\\n".encode())
subprocess.run(["sh", "-c", "echo from a child $0 >&2", sys.argv[2]], check=True)
raise ValueError("at last " + sys.argv[2])
"""


def test_the_log_of_a_keeper_holds_no_secret(tmp_path: Path) -> None:
    """Prints, writes past Python, children and the traceback of the end are all there, each without the secret."""
    log = tmp_path / "keeper.log"
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(log), TOKEN], timeout=60, check=False)
    text = log.read_text(encoding="utf-8")
    assert ended.returncode == 1
    assert TOKEN not in text
    for line in ("started with [REDACTED]", "raw [REDACTED] done", "from a child [REDACTED]", "at last [REDACTED]"):
        assert line in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
