"""`amplifier policy`: list, add, remove, explain, check and suggest rules."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup, hidden

_COMMANDS: Final = {
    name: Entry(f"{__name__}.{target}", summary)
    for name, target, summary in (
        ("allow", "write:allow", "Allow what a rule is about."),
        ("ask", "write:ask", "Ask about what a rule is about, each time."),
        ("deny", "write:deny", "Deny what a rule is about."),
        ("explain", "explain:explain", "Explain why an action is allowed, asked about or denied."),
        ("list", "list:list_rules", "List the rules that apply here."),
        ("remove", "write:remove", "Remove a rule from a policy file, or a remembered one."),
        ("suggest", "history:suggest", "Propose rules that would have saved approval requests."),
    )
}
_ALIASES: Final = hidden(__name__, backtest="history:backtest", check="list:check", revoke="write:remove")


@click.group(cls=LazyGroup, entries=_COMMANDS, aliases=_ALIASES)
def policy() -> None:
    """Work with the rules that say what a session may do.

    They are in policy.yaml of your home, in .amplifier/policy.yaml and .amplifier/policy.local.yaml of a project, in
    the bundle, and last in the program itself. Deny is absolute, ask is a floor, and what no rule covers is denied.

    \b
    Examples:
      amplifier policy list
      amplifier policy allow "npm test"
      amplifier policy deny "git push" --project
      amplifier policy explain --command "git push; rm x"
      amplifier policy suggest --days 7
    """
