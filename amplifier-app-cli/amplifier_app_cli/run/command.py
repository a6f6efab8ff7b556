"""The entry point of `run`, `continue` and `resume`: their options, the prompt, and how they answer or chat."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.completion import MODEL, PROVIDER
from amplifier_app_cli.options import Integer, Number
from amplifier_app_cli.run.standard_input import read_piped, text_of
from amplifier_app_cli.session_request import SessionRequest

if TYPE_CHECKING:
    from amplifier_app_cli.failures import Failure
    from amplifier_foundation.prompt.user_input import UserInput

Function = TypeVar("Function", bound=Callable[..., Any])

_FORMATS: Final = ("text", "json", "json-trace", "stream-json")

#: The names of permission modes, as `MODES` of the foundation has them: imported, they would delay every help text.
_MODES: Final = ("ask", "accept-edits", "auto", "read-only")


def _check_rules(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check the rules of --allow and --deny; raises BadParameter."""
    if not texts:
        return ()
    from amplifier_foundation.policy.rule_text import RuleTextError, parse_rule

    for text in texts:
        try:
            parse_rule(text, "allow" if option.name == "allow" else "deny")
        except RuleTextError as error:
            raise click.BadParameter(str(error), context, option) from error
    return texts


_OPTIONS = (
    click.option(
        "-p", "--provider", type=PROVIDER, help="Provider that answers: a name of the bundle's or settings' list."
    ),
    click.option(
        "-m",
        "--model",
        type=MODEL,
        help="Model that answers; without --provider, the provider that serves it is found.",
    ),
    click.option("--max-tokens", type=Integer(1), help="Longest answer, in tokens."),
    click.option(
        "--output-schema",
        metavar="FILE",
        help="Answer with JSON that fits the JSON schema in this file, for one prompt.",
    ),
    click.option(
        "--max-stdin",
        metavar="MB",
        type=Integer(1),
        default=10,
        show_default=True,
        help="Longest text that is read from standard input, in megabytes.",
    ),
    click.option("--locked", is_flag=True, help="Use exactly what bundle.lock pins, and fail for anything else."),
    click.option("--offline", is_flag=True, help="Fetch and install nothing."),
    click.option("--trust", is_flag=True, help="Trust what this project's files name, for this run."),
    click.option(
        "--allow-missing-modules",
        is_flag=True,
        envvar="AMPLIFIER_ALLOW_PARTIAL_BUNDLE",
        help="Leave out modules that cannot be loaded.",
    ),
    click.option(
        "--max-usd",
        type=Number(0),
        help="Stop calling models and tools once this run has cost that many dollars.",
    ),
    click.option(
        "--max-total-tokens",
        type=Integer(0),
        help="Stop calling models and tools once this run has used that many tokens, in and out together.",
    ),
    click.option("--max-turns", type=Integer(0), help="Call the model at most that often in this run."),
    click.option(
        "--max-seconds",
        type=Number(0),
        help="Stop calling models and tools after that many seconds; waiting for you counts.",
    ),
    click.option("--max-tool-calls", type=Integer(0), help="Call tools at most that often in this run."),
    click.option(
        "--permission-mode",
        type=click.Choice(_MODES),
        help="What is done without asking: nothing more than the rules allow, edits of files, also commands in the "
        "sandbox, or only reading.",
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="RULE",
        callback=_check_rules,
        help="Allow what RULE says, for this run, such as `npm test`; see `amplifier policy allow`.",
    ),
    click.option(
        "--deny",
        multiple=True,
        metavar="RULE",
        callback=_check_rules,
        help="Deny what RULE says, for this run, such as `git push *`.",
    ),
    click.option(
        "--add-dir",
        "add_dirs",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        help="Folder that counts as part of the project, for this run.",
    ),
    click.option("--system-prompt", metavar="TEXT", help="Use TEXT instead of the bundle's instruction."),
    click.option("--append-system-prompt", metavar="TEXT", help="Add TEXT to the bundle's instruction."),
    click.option("--safe-mode", is_flag=True, help="Ignore your settings, modules, hooks and tools."),
    click.option("-q", "--quiet", is_flag=True, help="Print the answer only."),
    click.option("-v", "--verbose", is_flag=True, help="Show files, modules and timings."),
)
_BUDGET = {
    "max_usd": "usd",
    "max_total_tokens": "tokens",
    "max_turns": "turns",
    "max_seconds": "seconds",
    "max_tool_calls": "tool_calls",
}


def run_options(command: Function) -> Function:
    """Add the options that every command has which runs a session."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def output_options(command: Function) -> Function:
    """Add the options for the format of the result."""
    command = click.option("--json", "as_json", is_flag=True, help="The same as --output-format stream-json.")(command)
    return click.option(
        "--output-format",
        type=click.Choice(_FORMATS),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(command)


def request_of(app: App, wishes: dict[str, Any]) -> SessionRequest:
    """Build the request from the options, and set quiet, verbose and safe mode of the app.

    Raises UsageError for options that contradict each other.
    """
    app.is_quiet = app.is_quiet or bool(wishes.get("quiet"))
    app.is_verbose = app.is_verbose or bool(wishes.get("verbose"))
    app.is_safe = app.is_safe or bool(wishes.get("safe_mode"))
    if app.is_safe and (wishes.get("bundle") or wishes.get("resume")):
        raise click.UsageError("--safe-mode uses its own bundle and a new session: leave out --bundle and --resume")
    budget = {name: wishes[option] for option, name in _BUDGET.items() if wishes.get(option) is not None}
    known = {name: value for name, value in wishes.items() if name in SessionRequest._fields}
    return SessionRequest(**known, budget=budget)


def format_of(wishes: dict[str, Any]) -> str:
    """Return the format of the result."""
    return "stream-json" if wishes["as_json"] else str(wishes["output_format"])


def answer(app: App, output_format: str, asked: Callable[[], tuple[SessionRequest, UserInput]]) -> NoReturn:
    """Run what `asked` returns, the request and its prompt, print the result, and exit.

    A usage error that `asked` raises is printed in the format of the result as well.
    """
    from amplifier_app_cli.ui.streams import guarded_stdout

    with guarded_stdout() as out:
        try:
            request, prompt = asked()
        except Exception as error:
            failure = _mistake(error)
            if failure is None:
                raise
            from amplifier_app_cli.run.printers import printer_for
            from amplifier_app_cli.session_app import Outcome
            from amplifier_app_cli.session_stats import SessionStats
            from amplifier_app_cli.ui.say import complain

            printer_for(output_format, out, SessionStats()).finish(Outcome.failed(*failure))
            if isinstance(error, click.ClickException):
                raise  # click says it, with how to use the command
            sys.exit(complain(failure.exit_code, failure.message))
        from amplifier_app_cli.event_loop import run_to_exit
        from amplifier_app_cli.run.one_prompt import run_prompt

        run_to_exit(lambda: run_prompt(app, request, prompt, output_format, out))


def _mistake(error: Exception) -> Failure | None:
    from amplifier_app_cli.failures import Failure, describe_failure

    if isinstance(error, click.ClickException):
        return Failure("usage", error.format_message(), error.exit_code)
    return describe_failure(error)


def converse(app: App, wishes: dict[str, Any], request: SessionRequest, **more: Any) -> NoReturn:
    """Chat, and exit; raises UsageError without a terminal, and for options that a chat does not have."""
    if format_of(wishes) != "text":
        raise click.UsageError("a chat has no --output-format and no --json: they are for one prompt")
    if request.output_schema is not None:
        raise click.UsageError("a chat takes no --output-schema: it is for one prompt")
    if request.images:
        raise click.UsageError("a chat takes no --image: it is for one prompt")
    from amplifier_app_cli.chat import chat
    from amplifier_app_cli.event_loop import run_to_exit

    if not app.can_chat:
        raise click.UsageError("a chat needs a terminal: for one prompt, use `amplifier run PROMPT`")
    run_to_exit(lambda: chat(app, request, **more))


def read_prompt(given: str | None, megabytes: int, *, is_optional: bool = False) -> UserInput:
    """Return the prompt: the argument, then what is piped in; standard input alone when it is `-` or not given.

    An argument counts as typed; piped text may come from anywhere, so that an `@` in it names no file. Raises
    UsageError for more than that many megabytes from standard input, and without a prompt, unless it is optional: a
    resumed session may have answered calls to run.
    """
    from amplifier_foundation.prompt.user_input import UserInput

    if given not in (None, "-"):
        if not given.strip():
            raise click.UsageError("the prompt is empty")
        # An argument that is not UTF-8 arrives in halves of characters, which nothing later could encode.
        typed = UserInput.of_typed(given.encode("utf-8", "replace").decode("utf-8"))
        piped = read_piped(megabytes).strip("\n")
        return typed + UserInput.of_data(f"\n\n{piped}") if piped.strip() else typed
    if sys.stdin is None or sys.stdin.isatty():
        if is_optional and given is None:
            return UserInput("")
        raise click.UsageError("no prompt: give one as an argument, pipe it in, or chat with --mode chat")
    text = text_of(sys.stdin.buffer, megabytes)
    if not text.strip():
        if is_optional and given is None:
            return UserInput("")
        raise click.UsageError("the prompt is empty")
    return UserInput.of_data(text)
