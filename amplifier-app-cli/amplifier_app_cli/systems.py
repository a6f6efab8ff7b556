"""The systems that the program runs on."""

from __future__ import annotations

import os
import sys

from amplifier_app_cli import exits


def refuse_other_systems(name: str = os.name) -> None:
    """End the program with one sentence where files cannot be locked and process groups cannot be ended."""
    if name != "posix":
        from amplifier_app_cli.ui.say import complain

        sys.exit(complain(exits.FAILURE, "this system has not what the program needs: on Windows, run it in WSL"))
