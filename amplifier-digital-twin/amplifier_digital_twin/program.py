"""Where the program begins: before anything that takes time is read, the keeper of a new universe is started."""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Run the program with the arguments of this process, and exit."""
    _complete_streams()
    if sys.argv[1:2] != ["exec"]:
        from amplifier_digital_twin.early import begin

        begin(sys.argv[1:])

    from amplifier_digital_twin import quick

    quick.main()

    from amplifier_digital_twin.main import main

    main()


def _complete_streams() -> None:
    """Let standard streams that the caller has closed lead nowhere: something else would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.dup2(descriptor, number)
            if descriptor != number:
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
