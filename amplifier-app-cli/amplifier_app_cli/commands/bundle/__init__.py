"""`amplifier bundle`: which bundles there are, which one runs, what it is made of, and what it is pinned to."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.bundle.{target}", summary)
    for name, target, summary in (
        ("add", "adding:add", "Give a bundle a name."),
        ("clear", "choosing:clear", "Choose no bundle any more."),
        ("current", "choosing:current", "Print the bundle that runs here."),
        ("explain", "explaining:explain", "Say which file set each value, and what lost."),
        ("list", "listing:list_bundles", "List the bundles there are."),
        ("lock", "locking:lock", "Write down what every source of a bundle is."),
        ("remove", "adding:remove", "Forget the name of a bundle."),
        ("show", "showing:show", "Print what a bundle is made of."),
        ("update", "updating:update", "Fetch newer states of what a bundle uses."),
        ("use", "choosing:use", "Choose the bundle that runs."),
        ("validate", "validating:validate", "Check a bundle file strictly."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def bundle() -> None:
    """Work with bundles: what a session is made of.

    \b
    Examples:
      amplifier bundle list
      amplifier bundle use minimal --project
      amplifier bundle explain --key tools
    """
