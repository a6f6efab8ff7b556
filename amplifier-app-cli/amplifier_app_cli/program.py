"""The group of all commands, and how every one of them ends."""

from __future__ import annotations

import sys
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.stdout_guard import is_about_stdout, seal_stdout, unwritten
from amplifier_app_cli.tree import LazyGroup


class Program(LazyGroup):
    """The tree of commands. Ctrl-C ends any of them with its exit code, and after the end nothing is printed."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program; output that cannot be written, of help and version too, is a failure in one line."""
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            if not is_about_stdout(error):
                raise
            from amplifier_app_cli.ui.say import complain

            seal_stdout()
            sys.exit(complain(exits.FAILURE, unwritten(error)))

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Take the options; of one that belongs to `run`, say how to chat with it."""
        given = list(arguments)
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            if error.option_name in ("--bundle", "-B"):
                hint = f"chat with a bundle: `{context.command_path} run --mode chat --bundle {_bundle_in(given)}`"
                raise click.UsageError(f"there is no option {error.option_name} here: {hint}", context) from None
            raise

    def invoke(self, context: click.Context) -> Any:
        """Run the command; Ctrl-C, at a question too, is exit code 130."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            sys.exit(_stopped())
        except click.Abort as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                sys.exit(_stopped())
            raise
        finally:
            seal_stdout()


def _bundle_in(arguments: list[str]) -> str:
    """Return the bundle that was named with an option that is not there, as `run` takes it."""
    import os
    import shlex

    name = "./team"
    for number, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in ("--bundle", "-B"):
            name = value or next(iter(arguments[number + 1 :]), name)
            break
    # A folder of the project is named by a path: without one it would be the name of a bundle.
    is_folder = not os.path.isabs(name) and not name.startswith((".", "~")) and os.path.exists(name)
    return shlex.quote(f"./{name}" if is_folder else name)


def _stopped() -> int:
    from amplifier_app_cli.ui.say import complain

    return complain(exits.INTERRUPTED, "stopped")
