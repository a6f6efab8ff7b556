"""`amplifier session rename`: call a session something."""

from __future__ import annotations

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import found_session
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.records import format_option, print_json


@click.command()
@click.argument("session")
@click.argument("name")
@format_option
@report_errors
def rename(session: str, name: str, output_format: str) -> None:
    """Give SESSION the name NAME, by which it can be found; an empty one takes the name away.

    \b
    Examples:
      amplifier session rename 3f2a "the garden"
      amplifier session rename "the garden" ""

    A name has up to 50 characters, and no other session of the project has it. A session may be renamed while it runs.
    """
    app = current_app()
    store, found = found_session(app, session)
    renamed = store.rename(found, name or None)
    if output_format == "json":
        print_json({"id": renamed.id, "name": renamed.name, "folder": str(renamed.folder)})
    elif renamed.name:
        app.inform(f"session {renamed.id} is called {renamed.name!r} now")
    else:
        app.inform(f"session {renamed.id} has no name now")
