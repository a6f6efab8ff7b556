"""`amplifier-digital-twin reset`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.identifiers import check_name


@click.command()
@click.argument("given", metavar="ID")
@click.argument("name", required=False)
def reset(given: str, name: str | None) -> None:
    """Take the file system of a universe back to the snapshot NAME, or to its start; all that runs inside ends."""
    answer(request(given, "reset", name=None if name is None else check_name(name)))
