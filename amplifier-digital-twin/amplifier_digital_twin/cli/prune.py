"""`amplifier-digital-twin prune`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer, complain
from amplifier_digital_twin.cli.tree import FAIL, PASS
from amplifier_digital_twin.registry import Registry


@click.command()
@click.option("--mine", is_flag=True, required=True, help="Only what is yours: there is no other way to call it.")
def prune(mine: bool) -> int:
    """Remove what universes of yours left whose keepers have crashed; living ones and other users' stay untouched."""
    import asyncio

    from amplifier_digital_twin.reaping import prune as prune_all

    if not mine:
        raise click.UsageError("say --mine: nobody else's universes are ever touched")
    pruned = asyncio.run(prune_all(Registry.find()))
    for record in pruned.failed.values():
        complain(record["message"], record["remedy"])
    answer(pruned._asdict())
    return FAIL if pruned.failed else PASS
