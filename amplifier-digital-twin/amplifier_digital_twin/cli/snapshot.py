"""`amplifier-digital-twin snapshot`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.identifiers import check_name


@click.command()
@click.argument("given", metavar="ID")
@click.argument("name")
def snapshot(given: str, name: str) -> None:
    """Keep the file system of a universe as it is under NAME, for `reset`."""
    answer(request(given, "snapshot", name=check_name(name)))
