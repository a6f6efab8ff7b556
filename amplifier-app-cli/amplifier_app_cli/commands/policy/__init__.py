"""`amplifier policy`: list, explain, check, test and suggest rules."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.policy.{target}", summary)
    for name, target, summary in (
        ("backtest", "history:backtest", "Test rules against the actions of past sessions."),
        ("check", "list:check", "Check policy files."),
        ("explain", "explain:explain", "Explain why an action is allowed, asked about or denied."),
        ("list", "list:list_rules", "List the rules that apply here."),
        ("revoke", "list:revoke", "Remove a remembered decision."),
        ("suggest", "history:suggest", "Propose rules that would have saved approval requests."),
    )
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def policy() -> None:
    """Work with the rules that say what a session may do.

    They are in policy.yaml of your home, in .amplifier/policy.yaml and .amplifier/policy.local.yaml of a project, in
    the bundle, and last in the program itself. Deny is absolute, ask is a floor, and what no rule covers is denied.

    \b
    Examples:
      amplifier policy list
      amplifier policy explain --command "git push; rm x"
      amplifier policy suggest --days 7
    """
