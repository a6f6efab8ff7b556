"""`amplifier-digital-twin update`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request


@click.command()
@click.argument("given", metavar="ID")
def update(given: str) -> None:
    """Do in a universe what its profile says is done for an update: take the repositories anew, run commands."""
    answer(request(given, "update"))
