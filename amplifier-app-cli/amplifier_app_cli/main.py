"""Entry point of `amplifier`: a lazy group, so that each command imports only what it needs."""

from __future__ import annotations

from importlib import import_module

import click

from amplifier_app_cli import __version__
from amplifier_app_cli.ui.streams import fill_standard_streams, never_fail_to_encode

_COMMANDS = {"run": "amplifier_app_cli.commands.run:run", "logs": "amplifier_app_cli.commands.logs:logs"}


class _LazyGroup(click.Group):
    """Import a command's file when the command is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup)
@click.version_option(__version__, prog_name="amplifier", message="%(prog)s %(version)s")
def main() -> None:
    """Run AI agents that say what they do."""
    fill_standard_streams()
    never_fail_to_encode()
