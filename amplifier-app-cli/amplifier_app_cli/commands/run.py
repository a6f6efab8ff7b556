"""`amplifier run`: one prompt, one answer, everything in the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.completion import BUNDLE, SESSION
from amplifier_app_cli.run.command import (
    answer,
    converse,
    format_of,
    output_options,
    read_prompt,
    request_of,
    run_options,
)

if TYPE_CHECKING:
    from amplifier_app_cli.session_request import SessionRequest
    from amplifier_foundation.prompt.user_input import UserInput


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "-B", "--bundle", "bundle", type=BUNDLE, help="Bundle to run: a name, a file, a folder or a source address."
)
@click.option(
    "--resume",
    metavar="SESSION",
    type=SESSION,
    help="Resume a session: its id, the beginning of its id, or its name.",
)
@click.option("--mode", type=click.Choice(["single", "chat"]), default="single", help="One answer, or a chat.")
@click.option(
    "--image", "images", multiple=True, type=click.Path(path_type=Path), help="Image to send with the prompt."
)
@output_options
@run_options
def run(prompt: str | None, mode: str, **wishes: Any) -> None:
    """Run PROMPT (or standard input, with - or none) and print the answer.

    \b
    Examples:
      amplifier run "What is in this folder?"
      amplifier run --bundle my-bundle.yaml "hello"
      amplifier run --resume 3f2a "And now?"
      amplifier run --json "List the tests" | jq -r 'select(.type == "result").response'
      cat question.txt | amplifier run

    \b
    Exit codes: 0 success, 1 failure, 2 usage error, 3 a call needs approval
    (`amplifier approval`), 4 the prompt was denied, 5 a limit was reached,
    6 modules missing or not trusted, 7 the model failed, 130 and 143 stopped
    by Ctrl-C and SIGTERM.
    """
    app = current_app()
    if mode == "chat":
        converse(app, wishes, request_of(app, wishes), first_prompt=prompt)
    may_wait = wishes["resume"] is not None

    def asked() -> tuple[SessionRequest, UserInput]:
        return request_of(app, wishes), read_prompt(prompt, wishes["max_stdin"], is_optional=may_wait)

    answer(app, format_of(wishes), asked)
