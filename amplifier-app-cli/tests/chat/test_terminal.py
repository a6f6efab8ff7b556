"""A terminal is brought back to what it was by whoever it belongs to."""

from __future__ import annotations

import sys

import pexpect

#: Makes a child in the background of the terminal, which sets it back, and tells how the child has ended.
_BACKGROUND = """
import os, signal
from amplifier_app_cli.chat.terminal import TerminalModes
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    TerminalModes().restore()
    os._exit(0)
_, status = os.waitpid(child, os.WUNTRACED)
print("exited" if os.WIFEXITED(status) else "stopped")
os.kill(child, signal.SIGKILL) if os.WIFSTOPPED(status) else None
"""


def test_a_program_in_the_background_leaves_the_terminal_alone() -> None:
    """To set a terminal that is another program's would stop this one just before it ends."""
    child = pexpect.spawn(sys.executable, ["-c", _BACKGROUND], timeout=60)
    assert child.expect_exact(["exited", "stopped"]) == 0
    child.expect(pexpect.EOF)
    child.close()
