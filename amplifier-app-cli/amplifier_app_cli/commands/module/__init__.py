"""`amplifier module`: list, add, validate and update modules."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.module.{target}", summary)
    for name, target, summary in (
        ("add", "add:add", "Add a module to every session."),
        ("current", "list:current", "List the modules of the bundle that runs here."),
        ("list", "list:list_modules", "List the known modules."),
        ("remove", "add:remove", "Remove an added module."),
        ("show", "list:show", "Print the details of a module."),
        ("update", "update:update", "Fetch newer versions of modules."),
        ("validate", "validate:validate", "Check a module against its contract."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def module() -> None:
    """Work with modules: providers, tools, hooks, loops and contexts.

    \b
    Examples:
      amplifier module list --type tool
      amplifier module add tool-census --source ./modules/tool-census --project
      amplifier module validate ./modules/tool-census
    """
