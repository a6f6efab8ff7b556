"""`amplifier policy list` and `revoke`: the rules that hold here, and removing one that was remembered."""

from __future__ import annotations

import re

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_app_cli.ui.table import table, terminal_width
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.policy_file import PolicySource
from amplifier_foundation.policy.remembered_rules import RememberedRule, RememberedRules
from amplifier_kit.guard.policy import Rule


@click.command("list")
@format_option
@report_errors
def list_rules(output_format: str) -> None:
    """List the rules that apply in this project, those of the program last; remembered ones have an id.

    Problems of policy files are reported on standard error, with file and line.

    \b
    Examples:
      amplifier policy list
      amplifier policy list --format json
    """
    app = current_app()
    permissions = permissions_in(app, app.project)
    remembered = RememberedRules(app.home, app.project).list()
    if output_format == "json":
        _print_json(permissions, remembered)
        return
    _print(permissions, remembered)
    for problem in permissions.problems:
        app.inform(f"problem: {problem.where}: {problem.message}")
    _hint(app, permissions)


@click.command()
@click.argument("rule_id", metavar="ID")
@format_option
@report_errors
def revoke(rule_id: str, output_format: str) -> None:
    """Remove the remembered rule ID, or the one whose id starts with ID; `amplifier policy list` shows ids.

    Rules that you wrote yourself have no id: remove them from their file.

    \b
    Examples:
      amplifier policy revoke 3f2a91c07b
      amplifier policy revoke 3f2a
    """
    app = current_app()
    gone = RememberedRules(app.home, app.project).revoke(rule_id)
    if output_format == "json":
        print_json(rule_record(gone.rule, id=gone.id, scope=gone.scope, file=str(gone.file)))
    app.inform(f"`{gone.rule}` is removed from {gone.file}")


def _rows(
    permissions: Permissions, remembered: tuple[RememberedRule, ...]
) -> list[tuple[Rule, str, bool, RememberedRule | None]]:
    """Return each rule with its scope, whether it counts, and what is known of it when it was remembered."""
    by_place = {(str(each.file), each.rule): each for each in remembered}
    rows: list[tuple[Rule, str, bool, RememberedRule | None]] = [
        (rule, source.scope, _counts(source, rule), by_place.get((source.origin, rule)))
        for source in permissions.sources
        for rule in source.rules
    ]
    rows += [
        (floor, f"{source.scope}, for a bad entry", True, None)
        for source in permissions.sources
        for floor in source.floors
    ]
    of_sessions = [(each.rule, f"session {each.session}", True, each) for each in remembered if each.scope == "session"]
    return [*of_sessions, *rows]


def _counts(source: PolicySource, rule: Rule) -> bool:
    return source.may_allow or rule.verdict != "allow"


def _print(permissions: Permissions, remembered: tuple[RememberedRule, ...]) -> None:
    cells = [
        (str(rule), scope if counts else f"{scope}, does not count", _where(rule, scope), known.id if known else "")
        for rule, scope, counts, known in _rows(permissions, remembered)
    ]
    click.echo(table(("RULE", "FROM", "WHERE", "ID"), cells, terminal_width()))


def _where(rule: Rule, scope: str) -> str:
    return "the program" if scope == "default" else rule.where


def _print_json(permissions: Permissions, remembered: tuple[RememberedRule, ...]) -> None:
    print_json(
        {
            "project": str(permissions.project),
            "rules": [
                rule_record(rule, scope=re.split("[ ,]", scope)[0], counts=counts, id=known.id if known else None)
                | ({"session": known.session} if known and known.session else {})
                for rule, scope, counts, known in _rows(permissions, remembered)
            ],
            "problems": [{"where": problem.where, "message": problem.message} for problem in permissions.problems],
        }
    )


def _hint(app: App, permissions: Permissions) -> None:
    if any(not source.may_allow for source in permissions.sources):
        app.inform("the project is not trusted: its files may only tighten; `amplifier trust` trusts them")
