"""`amplifier provider`: which models there are, which one answers, and whether it works."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup, hidden

_COMMANDS: Final = {
    name: Entry(f"{__name__}.{target}", summary)
    for name, target, summary in (
        ("add", "configure:add", "Configure a provider."),
        ("install", "install:install", "Install what a provider needs, such as a model for this machine."),
        ("list", "list:list_", "List the known providers and the state of each."),
        ("models", "test:models", "List the models of a provider."),
        ("remove", "configure:remove", "Remove a provider from the settings."),
        ("set", "configure:set_", "Change the configuration of a provider."),
        ("test", "test:test", "Send one tiny request to a provider."),
    )
}
_ALIASES: Final = hidden(__name__, edit="configure:set_", manage="list:manage")


@click.group(cls=LazyGroup, entries=_COMMANDS, aliases=_ALIASES)
def provider() -> None:
    """Choose, configure and try providers of models.

    \b
    Examples:
      amplifier provider list
      amplifier provider add openai --model gpt-5
      amplifier provider test
      amplifier run --provider openai "hello"
    """
