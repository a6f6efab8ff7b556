"""The tree of commands: a command is imported when it is called, and every one ends in the same way."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from amplifier_app_cli import exits
from amplifier_app_cli.options import accept_global_options
from amplifier_app_cli.ui.streams import is_about_stdout, seal_stdout, unwritten
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The first sentence of a help text is a summary, which is wrapped and not cut.
_LONGEST_SUMMARY = 200
#: A longer prompt is not repeated in an error.
_LONGEST_PROMPT = 60


class Entry(NamedTuple):
    """One command: `module:attribute` of its code, and its summary in the list of commands."""

    target: str
    summary: str = ""


def hidden(package: str, **targets: str) -> dict[str, Entry]:
    """Return the table of names that a group accepts without showing them; `_` in a keyword stands for `-`."""
    return {name.replace("_", "-"): Entry(f"{package}.{target}") for name, target in targets.items()}


class LazyGroup(click.Group):
    """A group whose commands are imported on use; listing them imports none.

    Its commands accept the options of the program too, so that these work before and after a command.
    """

    def __init__(
        self,
        *arguments: Any,
        entries: dict[str, Entry] | None = None,
        aliases: dict[str, Entry] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.entries = entries or {}
        #: Names of the published program, and of earlier releases: accepted, neither listed nor completed.
        self.aliases = aliases or {}

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of the commands that are shown, sorted."""
        return sorted({*self.entries, *super().list_commands(context)})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        entry = self.entries.get(name) or self.aliases.get(name)
        if entry is None:
            command = super().get_command(context, name)
        else:
            module, _, attribute = entry.target.partition(":")
            command = getattr(import_module(module), attribute)
        if command is not None:
            accept_global_options(command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their summaries."""
        rows = []
        for name in self.list_commands(context):
            entry = self.entries.get(name)
            if entry is not None:
                rows.append((name, entry.summary))
            elif (command := super().get_command(context, name)) is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(_LONGEST_SUMMARY)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands, with their summaries; none is imported for that."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(context) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._summary(context, name)) for name in names]
        return [*items, *click.Command.shell_complete(self, context, incomplete)]

    def _summary(self, context: click.Context, name: str) -> str:
        if name in self.entries:
            return self.entries[name].summary
        command = super().get_command(context, name)
        return command.get_short_help_str(_LONGEST_SUMMARY) if command is not None else ""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown one, report the nearest, or that this release does not have it."""
        name = arguments[0] if arguments else ""
        # While a shell completes a line, errors must not be written into it.
        if name and not context.resilient_parsing and self.get_command(context, name) is None:
            self._refuse(context, arguments)
        return super().resolve_command(context, arguments)

    def _refuse(self, context: click.Context, arguments: list[str]) -> None:
        name = arguments[0]
        path = f"{context.command_path} {name}".partition(" ")[2]
        if path in ABSENT:
            click.echo(f"amplifier: {ABSENT[path]}", err=True)
            context.exit(exits.USAGE)
        from amplifier_foundation.errors import did_you_mean

        all_of_them = f"`{context.command_path} --help` lists the commands."
        hint = did_you_mean(name, self.list_commands(context), all_of_them)
        raise click.UsageError(f"unknown command {name!r}: {hint}{self.hint_for(context, arguments)}", context)

    def hint_for(self, context: click.Context, arguments: list[str]) -> str:
        """Return what to add to the error about an unknown command."""
        return ""


def _quoted(prompt: str) -> str:
    """Return a prompt quoted for a shell; a long one as dots, since the user knows it."""
    import shlex

    if len(prompt) > _LONGEST_PROMPT or not prompt.isprintable():
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
        """Parse the options; those of `run` run a prompt, or chat when there is none."""
        given = _with_short_commands(arguments)
        if context.resilient_parsing:  # a shell completes: unknown options are skipped, not reported
            return super().parse_args(context, self._with_run(context, given))
        try:
            return super().parse_args(context, list(given))
        except click.NoSuchOption as error:
            position = next((at for at, word in enumerate(given) if word.startswith(error.option_name)), None)
            run = self.get_command(context, "run")
            if position is None or run is None or not _has_option(run, error.option_name):
                raise
            behind = given[position:]
            if (command := _command_behind(run, behind)) is not None:
                return super().parse_args(context, [*given[:position], *command])
            return super().parse_args(context, [*given[:position], "run", *_chat_unless_prompt(run, behind), *behind])

    def _with_run(self, context: click.Context, words: list[str]) -> list[str]:
        """Return the words with `run` before the first option that it has and the program has not."""
        for position, word in enumerate(words):
            if not word.startswith("-"):
                break
            name, run = word.partition("=")[0], self.get_command(context, "run")
            if run is not None and not _has_option(self, name) and _has_option(run, name):
                return [*words[:position], "run", *words[position:]]
        return words

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; several words in one argument are a prompt, which `run` gets with what follows it."""
        if arguments and _is_prompt(arguments[0]) and not context.resilient_parsing:
            arguments = ["run", *arguments]
        found = super().resolve_command(context, arguments)
        if not gc.isenabled():  # the start of the process has paused it
            gc.freeze()
            gc.enable()
        return found

    def hint_for(self, context: click.Context, arguments: list[str]) -> str:
        """Return how to run the words as a prompt: a single one never is, since it may be a mistyped command."""
        if any(word.startswith("-") for word in arguments):
            return ""
        prompt = " ".join(arguments)
        return f" To run it as a prompt: `{context.command_path} run {_quoted(prompt)}`"

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


#: Options of the program that are short for commands.
_SHORT: Final = {"-c": "continue", "--continue": "continue", "-r": "resume", "--resume": "resume"}


#: Short options of the program in one word, as in `-qc`.
_TOGETHER: Final = re.compile(r"-(?=[qv]*[cr])[qvcr]{2,}")


def _single(word: str) -> list[str]:
    return [f"-{letter}" for letter in word[1:]]


def _with_short_commands(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the command in place of `-c` or `-r`, where that comes before any other command."""
    words = [one for word in arguments for one in (_single(word) if _TOGETHER.fullmatch(word) else (word,))]
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        name, equals, value = words[position].partition("=")
        if name in _SHORT:
            return [*words[:position], _SHORT[name], *([value] if equals else []), *words[position + 1 :]]
        position += 2 if words[position] == "--color" else 1
    return words


def _command_behind(run: click.Command, words: Sequence[str]) -> list[str] | None:
    """Return the words with their options behind the command that follows them; None before a prompt.

    A single unknown word is no prompt here either.
    """
    parser = run.make_parser(click.Context(run, resilient_parsing=True))
    parser.allow_interspersed_args = False
    try:
        options, rest, _ = parser.parse_args(args=list(words))
    except click.UsageError:
        return None
    name = options.get("prompt")
    if not isinstance(name, str) or name in ("", "-") or _is_prompt(name):
        return None
    given = [name, *rest]
    end = given.index("--") if "--" in given else len(given)
    return [*given[:end], *words[: len(words) - len(given)], *given[end:]]


def _has_option(command: click.Command, name: str) -> bool:
    return any(name in parameter.opts for parameter in command.params if isinstance(parameter, click.Option))


def _chat_unless_prompt(run: click.Command, arguments: Sequence[str]) -> list[str]:
    """Return the option for a chat if the arguments of `run` have no prompt and there is a person at the terminal."""
    if not (sys.stdin is not None and sys.stdin.isatty()):
        return []
    parser = run.make_parser(click.Context(run, resilient_parsing=True, ignore_unknown_options=True))
    options, _, _ = parser.parse_args(args=list(arguments))
    # The parser stands in for a missing argument with an object of click's own, which counts as true.
    return [] if isinstance(options.get("prompt"), str) else ["--mode", "chat"]


def _is_prompt(word: str) -> bool:
    return len(word.split()) > 1


def _stopped() -> int:
    from amplifier_app_cli.ui.say import complain

    return complain(exits.INTERRUPTED, "stopped")


_KEPT: Final = "settings of it are kept untouched"

ABSENT: Final = {
    "module override": (
        "`module override` is not in this release: use `amplifier settings set overrides.MODULE.config.KEY VALUE`"
    ),
    "recipes": (
        "`recipes` as a command is not in this release: the tool `recipes` of the bundles `anchors` and `foundation` "
        "runs them, by hand with `amplifier module invoke recipes -b anchors operation=list`"
    ),
}
