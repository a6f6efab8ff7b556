"""Where the program begins: before anything that takes time is read, the keeper of a new universe is started."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the program with the arguments of this process, and exit."""
    if sys.argv[1:2] != ["exec"]:
        from amplifier_digital_twin.early import begin

        begin(sys.argv[1:])

    from amplifier_digital_twin import quick

    quick.main()

    from amplifier_digital_twin.main import main

    main()
