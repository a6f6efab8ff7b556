"""`amplifier session fork`: copy a session to continue it from an earlier point."""

from __future__ import annotations

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import found_session
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.fork import Forked, fork_session
from amplifier_foundation.sessions.store import SessionStore


@click.command()
@click.argument("session")
@click.option("-t", "--at-turn", type=click.IntRange(min=1), metavar="N", help="Up to the end of turn N.")
@click.option("--at-event", type=click.IntRange(min=1), metavar="SEQ", help="Up to the event with this number.")
@click.option("-n", "--name", help="What to call the copy.")
@click.option("--no-events", is_flag=True, help="Copy the conversation without the log.")
@format_option
@report_errors
def fork(
    session: str, at_turn: int | None, at_event: int | None, name: str | None, no_events: bool, output_format: str
) -> None:
    """Copy SESSION to continue from an earlier point of it, and print the id of the copy.

    \b
    Examples:
      amplifier session fork 3f2a
      amplifier session fork 3f2a --at-turn 2 --name "another way"
      amplifier run --resume "$(amplifier session fork 3f2a --at-event 41)" "And now?"

    `amplifier logs` shows the numbers of events. SESSION stays as it is, and may run meanwhile.
    """
    if at_turn is not None and at_event is not None:
        raise click.UsageError("--at-turn and --at-event: give one of them")

    app = current_app()
    store, found = found_session(app, session)
    made = fork_session(found.folder, at_turn=at_turn, at_event=at_event, include_events=not no_events)
    if name is not None:
        _name(store, made, name)
    app.warn(made.warnings)
    command = f'amplifier run --resume {made.session_id} "…"'
    if output_format == "json":
        print_json(
            {
                "id": made.session_id,
                "name": name and name.strip(),
                "folder": str(made.folder),
                "parent_id": made.parent_id,
                "turns": made.turns,
                "messages": made.messages,
                "events": made.events,
                "resume": ["amplifier", "run", "--resume", made.session_id],
                "warnings": list(made.warnings),
            }
        )
        return
    click.echo(made.session_id)
    app.inform(f"copied {counted(made.turns, 'turn')} and {counted(made.events, 'event')}; resume with: {command}")


def _name(store: SessionStore, made: Forked, name: str) -> None:
    """Rename the copy; delete it if that fails, so that the command can be repeated."""
    fresh = store.find(str(made.folder))
    try:
        store.rename(fresh, name)
    except FoundationError:
        store.delete(fresh)
        raise
