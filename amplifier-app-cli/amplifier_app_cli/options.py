"""The options that many commands have, each with one spelling for people.

The spellings of the published program are accepted and hidden. The options of the program itself are accepted behind
every command as well, where help does not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from amplifier_app_cli.app import App
from amplifier_kit.named_tuple import NamedTuple

Function = TypeVar("Function", bound=Callable[..., Any])
Program = TypeVar("Program", bound=click.Command)


class Integer(click.IntRange):
    """A whole number; errors and help call it that, not a range."""

    name = "integer"


class Number(click.FloatRange):
    """A number; errors and help call it that, not a range."""

    name = "number"


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


def source_option(command: Function) -> Function:
    """Add `--source` to a command that updates a bundle."""
    help_text = "Update what is fetched from this address alone, written as `--check` shows it."
    return click.option("--source", metavar="URI", help=help_text)(command)


def _set_flag(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, parameter: click.Parameter, is_given: Any) -> None:
        if is_given:
            setattr(context.find_root().ensure_object(App), name, True)

    return callback


def _set_colour(context: click.Context, parameter: click.Parameter, colour: str | None) -> None:
    if colour is not None:
        from amplifier_app_cli.ui.colour import choose_colour

        choose_colour(colour)


class _Global(NamedTuple):
    """One option of the program: its names, what it does, and what `click.Option` takes besides."""

    names: tuple[str, ...]
    callback: Callable[[click.Context, click.Parameter, Any], None]
    help: str
    more: dict[str, Any]


_FLAG: Final = {"is_flag": True}
_GLOBAL: Final = (
    _Global(("-q", "--quiet"), _set_flag("is_quiet"), "Print results only.", _FLAG),
    _Global(
        ("--no-input",), _set_flag("no_input"), "Never ask: what needs approval is denied or becomes pending.", _FLAG
    ),
    _Global(("-v", "--verbose"), _set_flag("is_verbose"), "Show more details.", _FLAG),
    _Global(
        ("--color",),
        _set_colour,
        "When to use colours; overrides NO_COLOR.",
        {"type": click.Choice(["auto", "always", "never"])},
    ),
    _Global(
        ("--safe-mode",),
        _set_flag("is_safe"),
        "Ignore your settings, modules, hooks and tools, to see whether they are at fault.",
        _FLAG,
    ),
)


def _option(option: _Global, names: list[str], *, is_hidden: bool) -> click.Option:
    name = f"global_{option.names[-1].strip('-').replace('-', '_')}"
    return click.Option(
        [name, *names], callback=option.callback, help=option.help, hidden=is_hidden, expose_value=False, **option.more
    )


def global_options(command: Program) -> Program:
    """Add the options of the program to its main command, where help shows them."""
    command.params[:0] = [_option(option, list(option.names), is_hidden=False) for option in _GLOBAL]
    return command


def accept_global_options(command: click.Command) -> None:
    """Let a command accept the options of the program too; its own options of the same name win."""
    taken = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for option in _GLOBAL:
        if names := [name for name in option.names if name not in taken]:
            command.params.append(_option(option, names, is_hidden=True))
