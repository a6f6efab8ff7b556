"""Entry point of `amplifier`: the tree of commands, and what holds for all of them."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli import __version__
from amplifier_app_cli.app import App
from amplifier_app_cli.tree import Entry, LazyGroup
from amplifier_app_cli.ui.streams import fill_standard_streams, never_fail_to_encode

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.{target}", summary)
    for name, target, summary in (
        ("run", "run:run", "Run one prompt and print the answer."),
        ("logs", "logs:logs", "Print the log of a session."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
@click.version_option(__version__, prog_name="amplifier", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="Print results only.")
@click.option("--no-input", is_flag=True, help="Never ask anything: what would be asked is denied.")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens.")
@click.pass_context
def main(context: click.Context, quiet: bool, no_input: bool, verbose: bool) -> None:
    """Run AI agents that say what they do.

    \b
    Examples:
      amplifier run "What is in this folder?"
      amplifier logs
    """
    fill_standard_streams()
    never_fail_to_encode()
    context.obj = App(quiet, no_input, verbose)
