"""The tree of commands: a command is imported when it is called, and every one ends in the same way."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from amplifier_app_cli import exits
from amplifier_app_cli.ui.streams import is_about_stdout, seal_stdout, unwritten

#: A longer prompt is not repeated in an error.
_LONGEST_PROMPT = 60


class Entry(NamedTuple):
    """One command: `module:attribute` of its code, and its summary in the list of commands."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """A group whose commands are imported on use; listing them imports none."""

    def __init__(self, *arguments: Any, entries: dict[str, Entry] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.entries = entries or {}

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*self.entries, *super().list_commands(context)})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, or None."""
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
        """Find the command; for an unknown one, report the nearest, or that this release does not have it."""
        name = arguments[0] if arguments else ""
        # While a shell completes a line, errors must not be written into it.
        if name and not context.resilient_parsing and self.get_command(context, name) is None:
            self._refuse(context, name)
        return super().resolve_command(context, arguments)

    def _refuse(self, context: click.Context, name: str) -> None:
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
    """Return a prompt quoted for a shell; a long one as dots, since the user knows it."""
    import shlex

    if len(prompt) > _LONGEST_PROMPT or "\n" in prompt:
        return '"…"'
    return shlex.quote(prompt) if set(prompt) & set('"$`\\!') else f'"{prompt}"'


class Program(LazyGroup):
    """The group of all commands; Ctrl-C ends any of them with its exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program; output that cannot be written, even of help, is reported in one line."""
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            if not is_about_stdout(error):
                raise
            from amplifier_app_cli.ui.say import complain

            seal_stdout()
            sys.exit(complain(exits.FAILURE, unwritten(error)))

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Parse the options; for one that belongs to `run`, say how to chat with it."""
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
    """Return the bundle named with the unknown option, as `run` takes it."""
    import os
    import shlex

    name = "./team"
    for number, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option in ("--bundle", "-B"):
            name = value or next(iter(arguments[number + 1 :]), name)
            break
    # A folder needs a path: without `./` it would be the name of a bundle.
    is_folder = not os.path.isabs(name) and not name.startswith((".", "~")) and os.path.exists(name)
    return shlex.quote(f"./{name}" if is_folder else name)


def _stopped() -> int:
    from amplifier_app_cli.ui.say import complain

    return complain(exits.INTERRUPTED, "stopped")


_KEPT: Final = "settings of it are kept untouched"

ABSENT: Final = {
    "routing": f"`routing` dashboards are not in this release; {_KEPT}. Set roles under `routing` in settings.yaml",
    "notify": f"`notify` is not in this release; {_KEPT}",
    "module override": (
        "`module override` is not in this release: use `amplifier settings set overrides.MODULE.config.KEY VALUE`"
    ),
    "recipes": f"`recipes` are not in this release; {_KEPT}",
    "mode": f"`modes` are not in this release; {_KEPT}",
    "modes": f"`modes` are not in this release; {_KEPT}",
}
