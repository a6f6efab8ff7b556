"""`amplifier session fork` and `export`: copies of a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.ui.records import format_option

if TYPE_CHECKING:
    from amplifier_foundation.sessions.export import ExportFormat
    from amplifier_foundation.sessions.fork import Forked
    from amplifier_foundation.sessions.store import SessionStore
    from amplifier_foundation.sessions.summary import SessionSummary

_FORMATS: Final[dict[str, ExportFormat]] = {"md": "md", "json": "json", "jsonl": "jsonl", "tar": "tar.gz"}
_STDOUT: Final = "-"


@click.command()
@click.argument("session")
@click.option("-t", "--at-turn", type=click.IntRange(min=1), metavar="N", help="Up to the end of turn N.")
@click.option("--at-event", type=click.IntRange(min=1), metavar="SEQ", help="Up to the event with this number.")
@click.option("-n", "--name", help="What to call the copy.")
@click.option("--no-events", is_flag=True, help="Copy the conversation without the log.")
@format_option
@told
def fork(
    session: str, at_turn: int | None, at_event: int | None, name: str | None, no_events: bool, output_format: str
) -> None:
    """Copy SESSION to go on from some point of it in another way, and print the id of the copy.

    \b
    Examples:
      amplifier session fork 3f2a
      amplifier session fork 3f2a --at-turn 2 --name "another way"
      amplifier run --resume "$(amplifier session fork 3f2a --at-event 41)" "And now?"

    `amplifier logs` shows the numbers of events. SESSION stays as it is, and may run meanwhile.
    """
    if at_turn is not None and at_event is not None:
        raise click.UsageError("--at-turn and --at-event: give one of them")
    from amplifier_app_cli.commands.session.facts import found_session, tell_warnings
    from amplifier_app_cli.ui.counting import counted
    from amplifier_foundation.sessions.fork import fork_session

    app = current_app()
    store, found = found_session(app, session)
    made = fork_session(found.folder, at_turn=at_turn, at_event=at_event, include_events=not no_events)
    if name is not None:
        _name(store, made, name)
    tell_warnings(app, made.warnings)
    command = f'amplifier run --resume {made.session_id} "…"'
    if output_format == "json":
        from amplifier_app_cli.ui.records import print_json

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
    app.inform(f"copied {counted(made.turns, 'turn')} and {counted(made.events, 'event')}; go on with: {command}")


def _name(store: SessionStore, made: Forked, name: str) -> None:
    """Give the copy its name; without it there is no copy, so that the command can be given again."""
    from amplifier_foundation.errors import FoundationError

    fresh = store.find(str(made.folder))
    try:
        store.rename(fresh, name)
    except FoundationError:
        store.delete(fresh)
        raise


@click.command()
@click.argument("session")
@click.option(
    "--as",
    "form",
    type=click.Choice(list(_FORMATS)),
    help="md to read, json for metadata and messages, jsonl for messages, tar for all files (log and kept copies of "
    "files included). Otherwise the ending of FILE tells it, or it is md.",
)
@click.option("-o", "--output", metavar="FILE", help="The file or folder to write to; - is standard output.")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@told
def export(session: str, form: str | None, output: str | None, force: bool) -> None:
    """Write SESSION to a file, in the current folder under its id unless FILE is given, and print the file's path.

    \b
    Examples:
      amplifier session export 3f2a
      amplifier session export 3f2a -o garden.json
      amplifier session export 3f2a --as jsonl -o - | jq .role

    In md, json and jsonl secrets are masked; tar has the files as they are.
    """
    from amplifier_app_cli.commands.session.facts import found_session, tell_warnings
    from amplifier_foundation.paths import expanded
    from amplifier_foundation.sessions.export import export as write_export

    app = current_app()
    _, found = found_session(app, session)
    if output == _STDOUT:
        tell_warnings(app, _to_stdout(found, _FORMATS[form or "md"]))
        return
    target = expanded(output) if output else Path()
    chosen = _FORMATS[form] if form else None if output and not target.is_dir() and target.suffix else "md"
    written = write_export(found, target, chosen, overwrite=force)
    tell_warnings(app, written.warnings)
    click.echo(written.path)


def _to_stdout(session: SessionSummary, form: ExportFormat) -> tuple[str, ...]:
    """Write the export to standard output, without what would steer a terminal; return what should be said."""
    import shutil
    import sys
    import tempfile

    from amplifier_foundation.sessions.export import export as write_export

    if form == "tar.gz" and sys.stdout.isatty():
        raise click.UsageError("an archive is not for the terminal: name a file with -o, or pipe it")
    out = sys.stdout.buffer
    with tempfile.TemporaryDirectory() as folder:
        written = write_export(session, Path(folder) / f"session.{form}", form)
        if form == "tar.gz":
            with open(written.path, "rb") as file:
                shutil.copyfileobj(file, out)
        else:
            from amplifier_app_cli.ui.plain import plain
            from amplifier_kit.guard.invisible_characters import printable_json

            text = written.path.read_bytes().decode("utf-8")
            out.write((plain(text) if form == "md" else printable_json(text)).encode("utf-8", "replace"))
    out.flush()
    return written.warnings
