"""`amplifier bundle`: list, choose, explain, lock and update bundles."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.bundle.{target}", summary)
    for name, target, summary in (
        ("add", "add:add", "Add a bundle under a name."),
        ("clear", "use:clear", "Unset the bundle of a scope."),
        ("current", "use:current", "Print the bundle that runs here."),
        ("explain", "show:explain", "Show which file set each value, and which values it replaced."),
        ("list", "list:list_bundles", "List the known bundles."),
        ("lock", "sources:lock", "Pin every source of a bundle in its lock file."),
        ("remove", "add:remove", "Remove the name of a bundle."),
        ("show", "show:show", "Print the parts of a bundle."),
        ("update", "update:update", "Fetch newer versions of what a bundle uses."),
        ("use", "use:use", "Choose the bundle that runs."),
        ("validate", "validate:validate", "Check a bundle file strictly."),
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
