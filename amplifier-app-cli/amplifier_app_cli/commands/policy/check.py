"""`amplifier policy check`: find what is wrong with policy files before they are needed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import permissions_in
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.policy.policy_file import PolicySource, read_policy_file


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@format_option
@report_errors
def check(files: tuple[Path, ...], output_format: str) -> None:
    """Check FILES, or every policy file that counts here; exit with 1 when one has a problem.

    Every entry is read, and every rule is tried on its own examples. A bad entry is reported alone and takes no other
    with it; until it is repaired, actions that it may have been about are asked about.

    \b
    Examples:
      amplifier policy check
      amplifier policy check proposed.yaml --format json
    """
    app = current_app()
    sources = _given(app, files) if files else _all(app)
    problems = [problem for source in sources for problem in source.problems]
    if output_format == "json":
        print_json(
            {
                "valid": not problems,
                "sources": [{"scope": each.scope, "origin": each.origin, "rules": len(each.rules)} for each in sources],
                "problems": [{"where": problem.where, "message": problem.message} for problem in problems],
            }
        )
    else:
        _print(sources)
    sys.exit(exits.FAILURE if problems else exits.OK)


def _given(app: App, files: tuple[Path, ...]) -> list[PolicySource]:
    found = []
    for file in files:
        source = read_policy_file(app.project / file, "user")
        if source is None:
            raise DocumentError(f"{app.project / file}: there is no such file")
        found.append(source)
    return found


def _all(app: App) -> list[PolicySource]:
    return [source for source in permissions_in(app, app.project).sources if source.scope != "default"]


def _print(sources: list[PolicySource]) -> None:
    if not sources:
        click.echo("there are no policy files here: the rules of the program hold alone")
    for source in sources:
        for problem in source.problems:
            click.echo(plain(f"{problem.where}: {problem.message}"))
        fault = counted(len(source.problems), "problem") if source.problems else "valid"
        click.echo(plain(f"{source.origin}: {fault} ({counted(len(source.rules), 'rule')})"))
