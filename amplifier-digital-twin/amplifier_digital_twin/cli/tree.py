"""The tree of commands: each imports only its own code, and every one of them ends in the same way."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from amplifier_digital_twin.cli.interruption import Interrupted, interruptible

PASS: Final = 0
FAIL: Final = 1
ERROR: Final = 2


class Entry(NamedTuple):
    """One command: `module:attribute` of its code, and what the list of commands says of it."""

    target: str
    summary: str


class Program(click.Group):
    """A group whose commands are imported when asked for; faults become JSON, words and an exit code."""

    def __init__(self, *arguments: Any, entries: dict[str, Entry] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.entries = entries or {}

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, None when there is none."""
        if name not in self.entries:
            return None
        module, _, attribute = self.entries[name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their summaries, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.entries[name].summary) for name in self.list_commands(context)])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = arguments[0] if arguments else ""
        if name not in self.entries:
            from amplifier_foundation.errors import did_you_mean

            raise click.UsageError(f"there is no command {name!r}: {did_you_mean(name, sorted(self.entries))}", context)
        return super().resolve_command(context, arguments)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program and exit: 0, 1 or 2, or the code of the signal that ended it."""
        options = {"prog_name": "amplifier-digital-twin", **options, "standalone_mode": False}
        # Signals belong to the main thread; a test may run this in another one.
        is_main = threading.current_thread() is threading.main_thread()
        try:
            with interruptible() if is_main else nullcontext():
                code = self._run(arguments, options)
        except (Interrupted, KeyboardInterrupt, click.Abort) as error:
            from amplifier_digital_twin.cli.answers import say

            say("amplifier-digital-twin: stopped")
            code = error.exit_code if isinstance(error, Interrupted) else 130
        sys.exit(code)

    def _run(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> int:
        try:
            code = super().main(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            from amplifier_digital_twin.cli.answers import forget_stdout

            forget_stdout()
            return FAIL
        except Exception as error:
            from amplifier_digital_twin.cli.failures import tell

            return tell(error)
        return code if isinstance(code, int) else PASS
