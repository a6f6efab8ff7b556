"""`amplifier run`: one prompt, one answer, everything in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.running.command import output_options, read_prompt, request_of, run_options, run_to_exit


@click.command()
@click.argument("prompt", required=False)
@click.option("-B", "--bundle", "bundle", help="Bundle to run: a name, a file, a folder or a source address.")
@click.option("--resume", metavar="SESSION", help="Go on with a session: its id, the beginning of it, or its name.")
@click.option("--mode", type=click.Choice(["single", "chat"]), default="single", help="One answer, or a chat.")
@click.option("--image", "images", multiple=True, type=click.Path(path_type=Path), help="Image that it is about.")
@output_options
@run_options
@click.option("-q", "--quiet", is_flag=True, help="Print the answer only.")
@click.option("-v", "--verbose", is_flag=True, help="Say more about what happens.")
def run(
    prompt: str | None,
    mode: str,
    images: tuple[Path, ...],
    output_format: str,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **wishes: Any,
) -> None:
    """Run PROMPT (or standard input, with - or none) and print the answer.

    \b
    Examples:
      amplifier run "What is in this folder?"
      amplifier run --bundle my-bundle.yaml "hello"
      amplifier run --resume 3f2a "And now?"
      amplifier run --json "List the tests" | jq -r 'select(.type == "result").response'
      cat question.txt | amplifier run
    """
    app = current_app()
    app.is_quiet, app.is_verbose = app.is_quiet or quiet, app.is_verbose or verbose
    request = request_of(wishes, images=images)
    if mode == "chat":
        from amplifier_app_cli.running.talk import talk

        run_to_exit(lambda: talk(app, request, first_prompt=prompt))
    text = read_prompt(prompt)
    from amplifier_app_cli.running.once import run_once
    from amplifier_app_cli.stdout_guard import guarded_stdout

    chosen = "stream-json" if as_json else output_format
    with guarded_stdout() as out:
        run_to_exit(lambda: run_once(app, request, text, chosen, out))
