"""`amplifier policy allow`, `ask`, `deny` and `remove`: write rules into policy files, and take them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.policy.load import judgement_record, permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.policy.permissions import Judgement
from amplifier_foundation.policy.remembered_rules import (
    FileScope,
    RememberedRule,
    RememberedRules,
    RuleNotFoundError,
    scoped,
)
from amplifier_foundation.policy.rule_text import RuleTextError, describe, example_of, parse_rule, with_any_verdict
from amplifier_kit.guard.policy.rules import Rule, Verdict

Function = TypeVar("Function", bound=Callable[..., Any])

_FORMS: Final = """RULE is a command (`npm test`, or `git *` for all that begin so), `read PATH`, `write PATH`,
`fetch HOST`, `tool NAME`, an action such as session.spawn, or a rule as `amplifier policy list` prints it.

It is written into policy.yaml of your home, or with --project into .amplifier/policy.yaml, which all who work on the
project share. Comments in the file stay."""


def _scope_options(command: Function) -> Function:
    for option in (
        click.option("--local", "scope", flag_value="local", help="In .amplifier/policy.local.yaml of this project."),
        click.option("--project", "scope", flag_value="project", help="In .amplifier/policy.yaml of this project."),
        click.option("--user", "scope", flag_value="user", default="user", help="In your home, the default."),
    ):
        command = option(command)
    return command


def _writer(verdict: Verdict, summary: str, examples: str) -> click.Command:
    """Return one of the three commands; they differ in the verdict."""

    @click.command(name=verdict, help=f"{summary}\n\n{_FORMS}\n\n\b\nExamples:\n{examples}")
    @click.argument("rule", nargs=-1, required=True)
    @_scope_options
    @click.option("--reason", default="", help="Why; it is shown with the verdict.")
    @json_option
    @report_errors
    def write(rule: tuple[str, ...], scope: FileScope, reason: str, as_json: bool) -> None:
        _write(" ".join(rule), verdict, scope, reason, as_json)

    return write


allow = _writer(
    "allow",
    "Allow what RULE is about, without asking.",
    """  amplifier policy allow "npm test"
  amplifier policy allow "git *" --project
  amplifier policy allow "write src/**" --local
  amplifier policy allow "tool mcp_issues_*"
""",
)
ask = _writer(
    "ask",
    "Ask about what RULE is about, each time, even if another rule allows it.",
    """  amplifier policy ask "git push *"
  amplifier policy ask "fetch *"
""",
)
deny = _writer(
    "deny",
    "Deny what RULE is about, whatever other rules allow.",
    """  amplifier policy deny "git push *" --project --reason "people push"
  amplifier policy deny "read .env"
""",
)


@click.command()
@click.argument("rule", nargs=-1, required=True, metavar="RULE|ID")
@_scope_options
@json_option
@report_errors
def remove(rule: tuple[str, ...], scope: FileScope, as_json: bool) -> None:
    """Remove RULE from a policy file, or the remembered rule ID (or the beginning of its id) from wherever it is.

    \b
    Examples:
      amplifier policy remove "npm test"
      amplifier policy remove deny "git push *" --project
      amplifier policy remove 3f2a91c07b
    """
    app, text = current_app(), " ".join(rule)
    files = RememberedRules(app.home, app.project)
    known = [one.id for one in files.list()]
    if any(one.startswith(text) for one in known):
        _report_revoked(app, files.revoke(text), as_json)
        return
    try:
        meant = with_any_verdict(text)
    except RuleTextError:
        meant = ()
    for one in meant:
        if files.erase(one, scope):
            if as_json:
                print_json(rule_record(one, id=None, scope=scope, file=str(files.file(scope))))
            app.inform(f"`{one}` is removed from {files.file(scope)}")
            return
    raise RuleNotFoundError(
        f"{files.file(scope)} has no rule {text!r}, and no remembered rule has that id: `amplifier policy list` shows "
        "all, with file and id"
    )


def _report_revoked(app: App, gone: RememberedRule, as_json: bool) -> None:
    if as_json:
        print_json(rule_record(gone.rule, id=gone.id, scope=gone.scope, file=str(gone.file)))
    app.inform(f"`{gone.rule}` is removed from {gone.file}")


def _write(text: str, verdict: Verdict, scope: FileScope, reason: str, as_json: bool) -> None:
    """Write the rule, and show what it means and whether it has that effect here."""
    app = current_app()
    rule = scoped(parse_rule(text, verdict), scope, app.project)
    if reason:
        rule = replace(rule, reason=reason)
    files = RememberedRules(app.home, app.project)
    file, changed = files.file(scope), files.write(rule, scope)
    judged = _judged(app, rule)
    if as_json:
        effect = judgement_record(judged) if judged is not None else None
        print_json({**rule_record(rule), "changed": changed, "file": str(file), "now": effect})
        return
    click.echo(plain(describe(rule)))
    app.inform(f"{'written to' if changed else 'already in'} {file}; `amplifier policy remove` takes it out")
    if judged is not None and judged.verdict != verdict:
        where = f" (`{judged.rule}`, {judged.rule.where or judged.scope})" if judged.rule is not None else ""
        app.inform(f"note: here the verdict is still {judged.verdict}: {judged.reason}{where}")


def _judged(app: App, rule: Rule) -> Judgement | None:
    """Return the verdict that now holds for what a rule names, None if it names a pattern."""
    example = example_of(rule)
    return permissions_in(app, app.project).judge(*example) if example is not None else None
