"""`amplifier tool`: what an agent can do, and doing it by hand."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.tool.{target}", summary)
    for name, target, summary in (
        ("info", "list:info", "Print what a tool does and takes."),
        ("invoke", "invoke:invoke", "Run a tool by hand."),
        ("list", "list:list_tools", "List the tools of a bundle."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def tool() -> None:
    """Look at the tools of a bundle, and run one by hand: `amplifier module tools` and `amplifier module invoke`.

    \b
    Examples:
      amplifier module tools
      amplifier module tools read_file
      amplifier module invoke read_file file_path=README.md
    """
