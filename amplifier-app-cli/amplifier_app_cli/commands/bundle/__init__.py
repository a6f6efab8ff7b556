"""`amplifier bundle`: list, show, choose, add and check bundles."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup, hidden

_COMMANDS: Final = {
    name: Entry(f"{__name__}.{target}", summary)
    for name, target, summary in (
        ("add", "add:add", "Add a bundle under a name."),
        ("list", "list:list_bundles", "List the known bundles."),
        ("remove", "add:remove", "Remove the name of a bundle."),
        ("set", "use:set_", "Choose the bundle that runs."),
        ("show", "show:show", "Show the parts of a bundle, or which file set each value."),
        ("validate", "validate:validate", "Check a bundle file strictly."),
    )
}
_ALIASES: Final = hidden(
    __name__,
    clear="use:unset",
    current="use:current",
    explain="show:explain",
    lock="sources:lock",
    unset="use:unset",
    update="update:update",
    use="use:set_",
)


@click.group(cls=LazyGroup, entries=_COMMANDS, aliases=_ALIASES)
def bundle() -> None:
    """Work with bundles: what a session is made of.

    \b
    Examples:
      amplifier bundle list
      amplifier bundle set minimal --project
      amplifier bundle show --explain --key tools

    `amplifier update` fetches newer versions of what a bundle uses, and pins them.
    """
