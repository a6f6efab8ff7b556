"""`amplifier policy revoke`: take back a decision that was remembered."""

from __future__ import annotations

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.ui.records import format_option, print_json


@click.command()
@click.argument("rule_id", metavar="ID")
@format_option
@told
def revoke(rule_id: str, output_format: str) -> None:
    """Take back the remembered rule ID, or the one whose id begins so; `amplifier policy list` shows ids.

    Rules that you wrote yourself have no id: take them out of their file.

    \b
    Examples:
      amplifier policy revoke 3f2a91c07b
      amplifier policy revoke 3f2a
    """
    from amplifier_app_cli.commands.policy.load import rule_record
    from amplifier_foundation.policy.remembered import RememberedRules

    app = current_app()
    gone = RememberedRules(app.home, app.project).revoke(rule_id)
    if output_format == "json":
        print_json(rule_record(gone.rule, id=gone.id, scope=gone.scope, file=str(gone.file)))
    app.inform(f"`{gone.rule}` is gone from {gone.file}")
