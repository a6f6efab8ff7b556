"""`amplifier policy suggest`: the few rules that would have spared the most questions."""

from __future__ import annotations

from typing import Any

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import days_option, past_of, permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_foundation.approvals.answered_by import account_name
from amplifier_foundation.policy.history import Suggestions, suggestions
from amplifier_foundation.policy.remembered_rules import RememberedRule, RememberedRules


@click.command()
@days_option
@click.option(
    "--least", type=click.IntRange(min=1), default=2, show_default=True, help="Requests that a rule must save."
)
@click.option("--write", "scope", type=click.Choice(["user", "local"]), help="Write the rules to your policy file.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask before writing.")
@format_option
@report_errors
def suggest(days: float, least: int, scope: str | None, is_sure: bool, output_format: str) -> None:
    """Propose rules from your approvals in this project in the last days.

    Each rule says how many questions it would have spared. None allows anything that was ever denied. Nothing is
    written without --write: `user` is policy.yaml of your home, `local` is .amplifier/policy.local.yaml of the project.

    \b
    Examples:
      amplifier policy suggest
      amplifier policy suggest --days 7 --least 5
      amplifier policy suggest --write local --yes
    """
    app = current_app()
    past = past_of(app, days)
    found = suggestions(past.actions, permissions_in(app, app.project), least=least)
    if output_format == "text":
        _print(app, found)
    written = _write(app, found, scope, is_sure) if scope is not None and found.rules else ()
    if output_format == "json":
        print_json(_record(found, written))


def _print(app: App, found: Suggestions) -> None:
    if not found.rules:
        app.inform(f"nothing to propose: questions in this time: {found.asked}")
    for suggestion in found.rules:
        click.echo(plain(f"{suggestion.rule}"))
        examples = "; ".join(" ".join(example.split())[:60] for example in suggestion.examples)
        click.echo(plain(f"  would have spared {suggestion.spared} of {found.asked} questions, such as: {examples}"))
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


def _record(found: Suggestions, written: tuple[RememberedRule, ...]) -> dict[str, Any]:
    return {
        "asked": found.asked,
        "spared": found.spared,
        "rules": [rule_record(each.rule, spared=each.spared, examples=list(each.examples)) for each in found.rules],
        "refused": [rule_record(rule, denied=denied) for rule, denied in found.refused],
        "written": [rule_record(each.rule, id=each.id, file=str(each.file)) for each in written],
    }
