"""`amplifier-digital-twin file-pull`."""

from __future__ import annotations

from pathlib import Path

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.errors import TwinError


@click.command("file-pull")
@click.argument("given", metavar="ID")
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path))
def file_pull(given: str, source: str, destination: Path) -> None:
    """Copy SOURCE of a universe, a file, a folder or a glob, to DESTINATION on this machine; links are not followed."""
    destination = destination.absolute()
    if not destination.parent.is_dir():
        raise TwinError("file_missing", f"{destination.parent}: there is no such folder", "make it first")
    answer(request(given, "pull", source=source, destination=str(destination)))
