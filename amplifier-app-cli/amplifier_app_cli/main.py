"""Entry point of `amplifier`: a lazy group, so that each command imports only what it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from amplifier_app_cli import __version__

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
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is shown as a question mark, not as a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
