"""`amplifier module`: list, show, add and check modules, and try their tools."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup, hidden

_COMMANDS: Final = {
    name: Entry(target, summary)
    for name, target, summary in (
        ("add", f"{__name__}.add:add", "Add a module to every session."),
        ("invoke", "amplifier_app_cli.commands.tool.invoke:invoke", "Run a tool by hand."),
        ("list", f"{__name__}.list:list_modules", "List the known modules."),
        ("remove", f"{__name__}.add:remove", "Remove an added module."),
        ("show", f"{__name__}.list:show", "Show the details and config keys of a module."),
        ("tools", "amplifier_app_cli.commands.tool.list:tools", "List the tools of a bundle, or show one."),
        ("validate", f"{__name__}.validate:validate", "Check a module against its contract."),
    )
}
_ALIASES: Final = hidden(__name__, current="list:current", update="update:update")


@click.group(cls=LazyGroup, entries=_COMMANDS, aliases=_ALIASES)
def module() -> None:
    """Work with modules: providers, tools, hooks, loops and contexts.

    \b
    Examples:
      amplifier module list --type tool
      amplifier module add tool-census --source ./modules/tool-census --project
      amplifier module validate ./modules/tool-census
      amplifier module invoke read_file file_path=README.md

    To take a module from another place than its bundle names: `amplifier settings set sources.modules.ID URI`.
    `amplifier update --module ID` fetches a newer version of one.
    """
