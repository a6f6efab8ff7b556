"""`amplifier-digital-twin status`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import find
from amplifier_digital_twin.cli.shown import shown
from amplifier_digital_twin.cli.tree import FAIL, PASS
from amplifier_digital_twin.control_client import ask, connect


@click.command()
@click.argument("given", metavar="ID")
def status(given: str) -> int:
    """Say how a universe is: exit code 0 when it is ready, 1 when it is being made, has failed or is dead."""
    found = find(given, alive=False)
    record = shown(found)
    if found.is_alive:
        record = {**record, **ask(connect(found.place.socket), "status")}
    answer(record)
    return PASS if record["phase"] == "ready" else FAIL
