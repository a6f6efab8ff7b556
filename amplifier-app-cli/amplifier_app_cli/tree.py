"""The tree of commands: where each one's code is, so that a command imports only its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import click

from amplifier_app_cli import exits

#: A longer prompt is not repeated in an error.
_LONGEST_PROMPT = 60


class Entry(NamedTuple):
    """One command: `module:attribute` of its code, and what the list of commands says of it."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for; listing them imports none."""

    def __init__(self, *arguments: Any, entries: dict[str, Entry] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.entries = entries or {}

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*self.entries, *super().list_commands(context)})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, None when there is none."""
        if name not in self.entries:
            return super().get_command(context, name)
        module, _, attribute = self.entries[name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their summaries."""
        rows = []
        for name in self.list_commands(context):
            entry = self.entries.get(name)
            if entry is not None:
                rows.append((name, entry.summary))
            elif (command := super().get_command(context, name)) is not None and not command.hidden:
                rows.append((name, command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant, or that this release does not have it."""
        name = arguments[0] if arguments else ""
        # Whoever completes a line that is wrong gets nothing offered, and nothing is written into it.
        if name and not context.resilient_parsing and self.get_command(context, name) is None:
            self._refuse(context, name)
        return super().resolve_command(context, arguments)

    def _refuse(self, context: click.Context, name: str) -> None:
        from amplifier_app_cli.absent import ABSENT

        path = f"{context.command_path} {name}".partition(" ")[2]
        if path in ABSENT:
            click.echo(f"amplifier: {ABSENT[path]}", err=True)
            context.exit(exits.USAGE)
        from amplifier_foundation.errors import did_you_mean

        hint = did_you_mean(name, self.list_commands(context))
        if context.parent is None and " " in name.strip():
            hint = f"did you mean `{context.command_path} run {_quoted(name)}`?"
        raise click.UsageError(f"there is no command {name!r}: {hint}", context)


def _quoted(prompt: str) -> str:
    """Return a prompt as a shell takes it, a long one as dots: whoever typed it knows it."""
    import shlex

    if len(prompt) > _LONGEST_PROMPT or "\n" in prompt:
        return '"…"'
    return shlex.quote(prompt) if set(prompt) & set('"$`\\!') else f'"{prompt}"'
