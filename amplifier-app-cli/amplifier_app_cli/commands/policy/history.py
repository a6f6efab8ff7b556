"""`amplifier policy suggest` and `check --past`: rules from past approvals, and what rules would have done before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import days_option, judgement_record, past_of, permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import Integer
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_foundation.approvals.answered_by import account_name
from amplifier_foundation.errors import PathNotFoundError
from amplifier_foundation.policy.history import Backtest, Past, Replayed, Suggestions, suggestions
from amplifier_foundation.policy.history import backtest as replay
from amplifier_foundation.policy.remembered_rules import RememberedRule, RememberedRules


@click.command()
@days_option
@click.option("--least", type=Integer(min=1), default=2, show_default=True, help="Requests that a rule must save.")
@click.option("--write", "scope", type=click.Choice(["user", "local"]), help="Write the rules to your policy file.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask before writing.")
@json_option
@report_errors
def suggest(days: float, least: int, scope: str | None, is_sure: bool, as_json: bool) -> None:
    """Propose rules from your approvals in this project in the last days.

    Each rule is listed with the approval requests that it would have saved. None allows anything that was ever denied.
    Nothing is written without --write: `user` is policy.yaml of your home, `local` is .amplifier/policy.local.yaml of
    the project.

    \b
    Examples:
      amplifier policy suggest
      amplifier policy suggest --days 7 --least 5
      amplifier policy suggest --write local --yes
    """
    app = current_app()
    past = past_of(app, days)
    found = suggestions(past.actions, permissions_in(app, app.project), least=least)
    if not as_json:
        _print_suggestions(app, found)
    written = _write(app, found, scope, is_sure) if scope is not None and found.rules else ()
    if as_json:
        print_json(_suggestions_record(found, written))


def _print_suggestions(app: App, found: Suggestions) -> None:
    if not found.rules:
        app.inform(f"nothing to propose: approval requests in this time: {found.asked}")
    for suggestion in found.rules:
        click.echo(plain(f"{suggestion.rule}"))
        examples = "; ".join(" ".join(example.split())[:60] for example in suggestion.examples)
        click.echo(
            plain(f"  would have saved {suggestion.spared} of {found.asked} approval requests, such as: {examples}")
        )
    for rule, denied in found.refused:
        app.inform(f"not proposed: `{rule}` would allow what was denied: {denied}")
    if found.rules:
        app.inform(f"together they would have saved {found.spared} of {found.asked} approval requests")


def _write(app: App, found: Suggestions, scope: str, is_sure: bool) -> tuple[RememberedRule, ...]:
    memory = RememberedRules(app.home, app.project)
    file = memory.file("user" if scope == "user" else "local")
    app.confirm(f"Put {len(found.rules)} rules into {file}?", is_sure, "give --yes to write the rules")
    rules = [each.rule for each in found.rules]
    kept = memory.remember(rules, "user" if scope == "user" else "local", account_name())
    for each in kept:
        app.inform(f"{each.id}: `{each.rule}` is in {each.file}")
    return kept


def _suggestions_record(found: Suggestions, written: tuple[RememberedRule, ...]) -> dict[str, Any]:
    return {
        "asked": found.asked,
        "spared": found.spared,
        "rules": [rule_record(each.rule, spared=each.spared, examples=list(each.examples)) for each in found.rules],
        "refused": [rule_record(rule, denied=denied) for rule, denied in found.refused],
        "written": [rule_record(each.rule, id=each.id, file=str(each.file)) for each in written],
    }


_THEN: Final = ("allowed", "asked", "denied", "unjudged")
_NOW: Final = ("allow", "ask", "deny")
_EXAMPLES: Final = 10


@click.command()
@click.option("--rules", "file", type=click.Path(path_type=Path), help="Rules to try instead of your policy.yaml.")
@days_option
@click.option("-a", "--all-projects", is_flag=True, help="Look at the sessions of all projects.")
@json_option
@report_errors
def backtest(file: Path | None, days: float, all_projects: bool, as_json: bool) -> None:
    """Apply rules to past sessions: the same as `amplifier policy check --past`.

    \b
    Examples:
      amplifier policy check --past proposed.yaml --days 90 --all-projects
    """
    print_backtest(file, days, all_projects=all_projects, as_json=as_json)


def print_backtest(file: Path | None, days: float, *, all_projects: bool, as_json: bool) -> None:
    """Print what the rules would have allowed, asked about and denied; with a file, it replaces the user's rules.

    Nothing is changed. Paths are looked at as they are today.
    """
    app = current_app()
    proposed = app.project / file if file is not None else None
    if proposed is not None and not proposed.exists():
        raise PathNotFoundError(f"{proposed}: there is no such file")
    past = past_of(app, days, all_projects=all_projects)
    known = {app.project: permissions_in(app, app.project, user_file=proposed)}
    for problem in known[app.project].problems:
        app.inform(f"problem: {problem.where}: {problem.message}")
    found = replay(past.actions, lambda project: known.get(project) or permissions_in(app, project, user_file=proposed))
    if as_json:
        print_json(_backtest_record(found, past))
        return
    _print_backtest(found, past)


def _print_backtest(found: Backtest, past: Past) -> None:
    click.echo(f"{counted(found.total, 'action')} of {counted(past.sessions, 'session')}")
    rows = [(then, *(found.how_many(then, now) for now in _NOW)) for then in _THEN if found.how_many(then)]
    if rows:
        print_table(("THEN", "NOW ALLOW", "NOW ASK", "NOW DENY"), rows)
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
        yield f"  and {len(all_of_them) - _EXAMPLES} more: --json has all"


def _backtest_record(found: Backtest, past: Past) -> dict[str, Any]:
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
