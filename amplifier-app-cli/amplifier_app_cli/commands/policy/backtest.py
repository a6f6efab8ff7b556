"""`amplifier policy backtest`: what rules would have done in the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.policy.load import days_option, judgement_record, past_of, permissions_in
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_app_cli.ui.table import table, terminal_width
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.policy.history import Backtest, Past, Replayed
from amplifier_foundation.policy.history import backtest as replay

_THEN: Final = ("allowed", "asked", "denied", "unjudged")
_NOW: Final = ("allow", "ask", "deny")
_EXAMPLES: Final = 10


@click.command()
@click.option("--rules", "file", type=click.Path(path_type=Path), help="Rules to try instead of your policy.yaml.")
@days_option
@click.option("-a", "--all-projects", is_flag=True, help="Look at the sessions of all projects.")
@format_option
@report_errors
def backtest(file: Path | None, days: float, all_projects: bool, output_format: str) -> None:
    """Apply the current rules to past sessions: what would have been allowed, asked about or denied.

    With --rules the file takes the place of policy.yaml in your home; all other rules stay. Nothing is changed. Paths
    are looked at as they are today.

    \b
    Examples:
      amplifier policy backtest --rules proposed.yaml
      amplifier policy backtest --rules proposed.yaml --days 90 --all-projects
      amplifier policy backtest --format json
    """
    app = current_app()
    proposed = app.project / file if file is not None else None
    if proposed is not None and not proposed.exists():
        raise DocumentError(f"{proposed}: there is no such file")
    past = past_of(app, days, all_projects=all_projects)
    known = {app.project: permissions_in(app, app.project, user_file=proposed)}
    for problem in known[app.project].problems:
        app.inform(f"problem: {problem.where}: {problem.message}")
    found = replay(past.actions, lambda project: known.get(project) or permissions_in(app, project, user_file=proposed))
    if output_format == "json":
        print_json(_record(found, past))
        return
    _print(found, past)


def _print(found: Backtest, past: Past) -> None:
    click.echo(f"{counted(found.total, 'action')} of {counted(past.sessions, 'session')}")
    rows = [(then, *(found.how_many(then, now) for now in _NOW)) for then in _THEN if found.how_many(then)]
    if rows:
        click.echo(table(("THEN", "NOW ALLOW", "NOW ASK", "NOW DENY"), rows, terminal_width()))
    for change in ("stricter", "milder"):
        for line in _examples(found, change):
            click.echo(plain(line))


def _examples(found: Backtest, change: str) -> Iterator[str]:
    all_of_them = found.examples(change)
    if all_of_them:
        yield f"{change}:"
    for each in all_of_them[:_EXAMPLES]:
        shown = " ".join(each.past.shown.split())[:80]
        yield f"  {each.times}x {each.past.then} -> {each.now.verdict}: {each.past.action} {shown} ({each.now.reason})"
    if len(all_of_them) > _EXAMPLES:
        yield f"  and {len(all_of_them) - _EXAMPLES} more: --format json has all"


def _record(found: Backtest, past: Past) -> dict[str, Any]:
    return {
        "sessions": past.sessions,
        "actions": found.total,
        "counts": {then: {now: found.how_many(then, now) for now in _NOW} for then in _THEN},
        "stricter": [_replayed(each) for each in found.examples("stricter")],
        "milder": [_replayed(each) for each in found.examples("milder")],
        "problems": past.problems,
    }


def _replayed(each: Replayed) -> dict[str, Any]:
    return {
        "times": each.times,
        "then": each.past.then,
        "granted": each.past.is_granted,
        "action": each.past.action,
        "what": each.past.shown,
        "project": str(each.past.project),
        "session": each.past.session,
        "at": each.past.at,
        "now": judgement_record(each.now),
    }
