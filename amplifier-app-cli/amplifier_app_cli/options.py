"""Options with one spelling for people, and the spellings of the published program, which are accepted and hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


class Option(click.Option):
    """An option that is also accepted as one of `hidden_names`, which help and completion do not show."""

    def __init__(self, *arguments: Any, hidden_names: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.hidden_names = hidden_names

    def add_to_parser(self, parser: Any, context: click.Context) -> None:
        """Let the parser accept all names."""
        shown = self.opts
        self.opts = [*shown, *self.hidden_names]
        try:
            super().add_to_parser(parser, context)
        finally:
            self.opts = shown


def yes_option(help_text: str = "Do not ask.") -> Callable[[Function], Function]:
    """Add `-y/--yes` to a command, as `is_sure`; `-f` and `--force` mean the same, hidden."""
    names = ("-f", "--force")
    return click.option("-y", "--yes", "is_sure", cls=Option, hidden_names=names, is_flag=True, help=help_text)


def check_option(command: Function) -> Function:
    """Add `--check` to a command that updates, as `is_check`; `--check-only` means the same, hidden."""
    names = ("--check-only",)
    help_text = "Only show what is newer."
    return click.option("--check", "is_check", cls=Option, hidden_names=names, is_flag=True, help=help_text)(command)
