"""The group of all commands, and how every one of them ends."""

from __future__ import annotations

import sys
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.stdout_guard import seal_stdout
from amplifier_app_cli.tree import LazyGroup


class Program(LazyGroup):
    """The tree of commands. Ctrl-C ends any of them with its exit code, and after the end nothing is printed."""

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


def _stopped() -> int:
    from amplifier_app_cli.ui.say import complain

    return complain(exits.INTERRUPTED, "stopped")
