"""`amplifier logs`: what happened, line by line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from amplifier_app_cli import exits
from amplifier_app_cli.ui.plain import plain, plain_json
from amplifier_app_cli.ui.say import complain

if TYPE_CHECKING:
    from amplifier_foundation.log import LogLine

_SHOWN = 100


@click.command()
@click.argument("session", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the records as they are, one JSON object per line.")
@click.option("-e", "--event", "events", multiple=True, help="Show only events of this name (may be repeated).")
def logs(session: str | None, as_json: bool, events: tuple[str, ...]) -> None:
    """Print the log of SESSION (an id or its beginning), or of the newest session of this project.

    \b
    Examples:
      amplifier logs
      amplifier logs 3f2a --event tool:pre
      amplifier logs --json | jq .event
    """
    from amplifier_app_cli.ui.diagnostics import show_warnings
    from amplifier_foundation.log import read_log

    show_warnings()
    folder = _folder(session)
    try:
        for line in read_log(folder):
            if not events or line.event in events:
                click.echo(_as_json(line) if as_json else _readable(line))
    except BrokenPipeError:
        raise  # click ends quietly: the reader has seen enough
    except OSError as error:
        _fail(f"cannot read the log in {folder}: {error.strerror or error}")


def _folder(session: str | None) -> Path:
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.paths import Home, current_project
    from amplifier_foundation.sessions.store import SessionStore

    try:
        home, project = Home.find(), current_project()
        store = SessionStore(home)
        found = store.newest(project) if session is None else store.find(session, project)
    except (FoundationError, OSError) as error:
        _fail(str(error))
    return found.folder if found is not None else _fail(f"no sessions in {home.sessions(project)}: run one first")


def _fail(message: str) -> NoReturn:
    sys.exit(complain(exits.FAILURE, message))


def _as_json(line: LogLine) -> str:
    return plain_json(json.dumps(line.record, ensure_ascii=False))


def _readable(line: LogLine) -> str:
    facts = " ".join(f"{key}={_short(value)}" for key, value in line.data.items())
    status = f" {line.record['status']}" if line.record.get("status") else ""
    error = f" {line.error.get('message', '')}" if line.error else ""
    clock = (line.ts or "")[11:23]
    text = f"{line.seq or '':>5} {clock} {line.level or '':<7} {line.event}{status}{error} {facts}"
    return plain(text.replace("\n", "\\n")).rstrip()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
