"""`amplifier-digital-twin launch`."""

from __future__ import annotations

from typing import Any

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.launch_options import launch_options
from amplifier_digital_twin.cli.launching import Options, run_universe


@click.command()
@launch_options
@click.option("--keep", is_flag=True, help="Keep a universe whose launch failed, to look around in it.")
def launch(**options: Any) -> None:
    """Make a universe from PROFILE, a path or the name of a shipped profile, and print how it can be reached.

    It stays until `destroy`, or until its lease is over. Ctrl-C while it is being made destroys it.
    """
    run_universe("launch", Options(**options), evidence=None, tell=answer)
