"""`amplifier policy list` and `check`: the rules that apply here, and problems of their files."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import days_option, permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_foundation.errors import PathNotFoundError
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.policy_file import PolicySource, read_policy_file
from amplifier_foundation.policy.remembered_rules import RememberedRule, RememberedRules
from amplifier_kit.guard.policy.rules import Rule
from amplifier_kit.named_tuple import NamedTuple


@click.command("list")
@json_option
@report_errors
def list_rules(as_json: bool) -> None:
    """List the rules that apply in this project, those of the program last; remembered ones have an id.

    Problems of policy files are reported on standard error, with file and line.

    \b
    Examples:
      amplifier policy list
      amplifier policy list --json
    """
    app = current_app()
    permissions = permissions_in(app, app.project)
    remembered = RememberedRules(app.home, app.project).list()
    if as_json:
        _print_json(permissions, remembered)
        return
    _print(permissions, remembered)
    for problem in permissions.problems:
        app.inform(f"problem: {problem.where}: {problem.message}")
    _hint(app, permissions)


class _Row(NamedTuple):
    """One rule of the list."""

    rule: Rule
    scope: str
    #: What a person reads after the scope.
    note: str = ""
    #: Whether the rule has an effect here.
    counts: bool = True
    remembered: RememberedRule | None = None


def _rows(permissions: Permissions, remembered: tuple[RememberedRule, ...]) -> list[_Row]:
    """Return the rules, those of sessions first and the floors for bad entries last."""
    by_place = {(str(each.file), each.rule): each for each in remembered}
    rows = [
        _Row(one.rule, "session", f" {one.session}", remembered=one) for one in remembered if one.scope == "session"
    ]
    for source in permissions.sources:
        for rule in source.rules:
            counts = source.may_allow or rule.verdict != "allow"
            note = "" if counts else ", ignored"
            rows.append(_Row(rule, source.scope, note, counts, by_place.get((source.origin, rule))))
    for source in permissions.sources:
        rows += [_Row(floor, source.scope, ", for a bad entry") for floor in source.floors]
    return rows


def _print(permissions: Permissions, remembered: tuple[RememberedRule, ...]) -> None:
    cells = [
        (
            str(row.rule),
            row.scope + row.note,
            "the program" if row.scope == "default" else row.rule.where,
            row.remembered.id if row.remembered else "",
        )
        for row in _rows(permissions, remembered)
    ]
    print_table(("RULE", "FROM", "WHERE", "ID"), cells)


def _print_json(permissions: Permissions, remembered: tuple[RememberedRule, ...]) -> None:
    rules = []
    for row in _rows(permissions, remembered):
        known = row.remembered
        record = rule_record(row.rule, scope=row.scope, counts=row.counts, id=known.id if known else None)
        rules.append(record | ({"session": known.session} if known and known.session else {}))
    problems = [{"where": problem.where, "message": problem.message} for problem in permissions.problems]
    print_json({"project": str(permissions.project), "rules": rules, "problems": problems})


def _hint(app: App, permissions: Permissions) -> None:
    if any(not source.may_allow for source in permissions.sources):
        app.inform("the project is not trusted: its files may only tighten; `amplifier trust` trusts them")


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--past", "is_past", is_flag=True, help="Apply the rules to past sessions: what would change.")
@days_option
@click.option("-a", "--all-projects", is_flag=True, help="With --past, look at the sessions of all projects.")
@json_option
@report_errors
def check(files: tuple[Path, ...], is_past: bool, days: float, all_projects: bool, as_json: bool) -> None:
    """Check FILES, or every policy file that counts here; exit with 1 when one has a problem.

    Every entry is read, and every rule is tried on its own examples. A bad entry is reported alone and takes no other
    with it; until it is repaired, actions that it may have been about are asked about.

    With --past: what the rules would have allowed, asked about and denied in past sessions. FILES, one at most, then
    takes the place of policy.yaml in your home; all other rules stay, and nothing is changed.

    \b
    Examples:
      amplifier policy check
      amplifier policy check proposed.yaml --json
      amplifier policy check --past proposed.yaml --days 90
    """
    if is_past:
        if len(files) > 1:
            raise click.UsageError("--past takes one file: the rules to try instead of your policy.yaml")
        from amplifier_app_cli.commands.policy.history import print_backtest

        print_backtest(files[0] if files else None, days, all_projects=all_projects, as_json=as_json)
        return
    app = current_app()
    sources = _given_sources(app, files) if files else _all_sources(app)
    problems = [problem for source in sources for problem in source.problems]
    if as_json:
        print_json(
            {
                "valid": not problems,
                "sources": [{"scope": each.scope, "origin": each.origin, "rules": len(each.rules)} for each in sources],
                "problems": [{"where": problem.where, "message": problem.message} for problem in problems],
            }
        )
    else:
        _print_check(sources)
    sys.exit(exits.FAILURE if problems else exits.OK)


def _given_sources(app: App, files: tuple[Path, ...]) -> list[PolicySource]:
    found = []
    for file in files:
        source = read_policy_file(app.project / file, "user")
        if source is None:
            raise PathNotFoundError(f"{app.project / file}: there is no such file")
        found.append(source)
    return found


def _all_sources(app: App) -> list[PolicySource]:
    return [source for source in permissions_in(app, app.project).sources if source.scope != "default"]


def _print_check(sources: list[PolicySource]) -> None:
    if not sources:
        click.echo("there are no policy files here: the rules of the program apply alone")
    for source in sources:
        for problem in source.problems:
            click.echo(plain(f"{problem.where}: {problem.message}"))
        fault = counted(len(source.problems), "problem") if source.problems else "valid"
        click.echo(plain(f"{source.origin}: {fault} ({counted(len(source.rules), 'rule')})"))
