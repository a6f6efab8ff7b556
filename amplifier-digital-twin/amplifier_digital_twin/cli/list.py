"""`amplifier-digital-twin list`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer, complain
from amplifier_digital_twin.cli.shown import shown
from amplifier_digital_twin.registry import Registry


@click.command("list")
def list_() -> None:
    """List all universes, the oldest first; `phase` is `dead` for those whose keeper has ended."""
    listing = Registry.find().all()
    for error in listing.faults.values():
        complain(error.message, error.remedy)
    answer(
        {
            "universes": [shown(found) for found in listing.universes],
            "faults": {str(folder): error.record() for folder, error in listing.faults.items()},
        }
    )
