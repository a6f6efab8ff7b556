"""What the commands that run prompts share: their options, and the way into the event loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from amplifier_app_cli.running.formats import FORMATS
from amplifier_app_cli.running.request import RunRequest

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-p", "--provider", help="Provider that answers: a name of the bundle's or settings' list."),
    click.option("-m", "--model", help="Model of that provider."),
    click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens."),
    click.option("--locked", is_flag=True, help="Use exactly what bundle.lock names, fail for what it does not name."),
    click.option("--offline", is_flag=True, help="Fetch and install nothing."),
    click.option("--trust", is_flag=True, help="Trust what this project's files name, for this run."),
    click.option("--allow-missing-modules", is_flag=True, help="Go on when a module cannot be loaded."),
    click.option("--max-usd", type=float, help="Stop before the session costs more dollars."),
    click.option("--max-total-tokens", type=click.IntRange(0), help="Stop before it uses more tokens."),
    click.option("--max-turns", type=click.IntRange(0), help="Stop before it asks the model more often."),
    click.option("--max-seconds", type=float, help="Stop before it takes longer."),
    click.option("--max-tool-calls", type=click.IntRange(0), help="Stop before it calls tools more often."),
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
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(command)


def request_of(wishes: dict[str, Any], *, images: tuple[Path, ...] = ()) -> RunRequest:
    """Return the request that options make; raises UsageError for options that contradict each other."""
    if wishes.get("model") and not wishes.get("provider"):
        raise click.UsageError("--model needs --provider: the same model may be had from several")
    budget = {name: wishes.pop(option) for option, name in _BUDGET.items() if wishes.get(option) is not None}
    known = {name: value for name, value in wishes.items() if name in RunRequest.__dataclass_fields__}
    return RunRequest(**known, budget=budget, images=images)


def read_prompt(given: str | None) -> str:
    """Return the prompt, from standard input when it is `-` or not given; raises UsageError when there is none."""
    if given not in (None, "-"):
        text = given
    elif sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("no prompt: give one as an argument, or pipe it in")
    else:
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    if not text or not text.strip():
        raise click.UsageError("the prompt is empty")
    # An argument that is not UTF-8 arrives in halves of characters, which nothing later could encode.
    return text.encode("utf-8", "replace").decode("utf-8")


def run_to_exit(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run the coroutine that `work` makes, and leave the program with its exit code."""
    import asyncio

    from amplifier_app_cli.collector import collect_nothing, collect_what_is_new
    from amplifier_app_cli.ui.diagnostics import show_warnings

    show_warnings()
    collect_nothing()
    try:
        code = asyncio.run(work())
    finally:
        collect_what_is_new()
    sys.exit(code)
