"""`amplifier migrate`: take over a home of the published program, after showing what that means."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import yes_option
from amplifier_app_cli.ui.layout import table
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import complain

if TYPE_CHECKING:
    from amplifier_app_cli.migration import Item


@click.command()
@click.argument("source", metavar="[FROM]", required=False, type=click.Path(path_type=Path))
@yes_option("Take it over; without it nothing is changed.")
@json_option
@report_errors
def migrate(source: Path | None, is_sure: bool, as_json: bool) -> None:
    """Take over settings, keys, bundles and sessions of the published program.

    \b
    Examples:
      amplifier migrate
      amplifier migrate ~/.amplifier --yes

    FROM is its home, by default ~/.amplifier. It is only read: both programs can go on side by side. What is set here
    already stays. A second run takes over what is new.
    """
    from amplifier_app_cli.migration import Migration

    app = current_app()
    migration = Migration(source if source is not None else Path.home() / ".amplifier", app.home)
    items = migration.apply() if is_sure else [step.item for step in migration.plan()]
    differences = list(dict.fromkeys(migration.differences))
    if as_json:
        print_json(
            {
                "from": str(migration.source.path),
                "to": str(app.home.path),
                "applied": is_sure,
                "items": [item._asdict() for item in items],
                "differences": differences,
            }
        )
    else:
        _show(items, differences)
    failed = [item for item in items if item.action == "failed"]
    if failed:
        sys.exit(complain(exits.FAILURE, f"{len(failed)} could not be taken over: repair them, then run this again"))
    if migration.is_same:
        app.inform(f"{app.home.path} is the home of this program too: everything is read where it is")
    elif not is_sure and any(item.action == "take over" for item in items):
        app.inform("nothing was changed: give --yes to take this over")


def _show(items: list[Item], differences: list[str]) -> None:
    rows = [(item.category, item.action, item.name, item.note) for item in items if "sessions" not in item.category]
    sessions = Counter(
        (item.category, item.action, item.name.partition("/")[0], item.note)
        for item in items
        if "sessions" in item.category
    )
    rows += [
        (category, action, f"{count} in {project}", note)
        for (category, action, project, note), count in sessions.items()
    ]
    click.echo(table(("WHAT", "ACTION", "NAME", "NOTE"), rows) if rows else "there is nothing to take over")
    click.echo("\nWhat differs here:")
    for difference in differences:
        click.echo(plain(f"- {difference}"))
