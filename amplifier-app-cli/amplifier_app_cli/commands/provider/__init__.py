"""`amplifier provider`: which models there are, which one answers, and whether it works."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.provider.{target}", summary)
    for name, target, summary in (
        ("list", "list:list_", "Print the known providers and the state of each."),
        ("manage", "list:manage", "Print the providers, and the commands that change them."),
        ("install", "install:install", "Install what providers need."),
        ("add", "configure:add", "Configure a provider."),
        ("edit", "configure:edit", "Change the configuration of a provider."),
        ("remove", "configure:remove", "Remove a provider from the settings."),
        ("test", "test:test", "Send one tiny request to a provider."),
        ("models", "test:models", "Print the models of a provider."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def provider() -> None:
    """Choose, configure and try providers of models.

    \b
    Examples:
      amplifier provider list
      amplifier provider add openai --model gpt-5
      amplifier provider test
      amplifier run --provider openai "hello"
    """
