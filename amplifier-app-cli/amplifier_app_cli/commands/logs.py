"""`amplifier logs`: what happened, line by line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli import exits

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
    from amplifier_foundation.log import read_log

    folder = _folder(session)
    for line in read_log(folder):
        if not events or line.event in events:
            click.echo(json.dumps(line.record, ensure_ascii=False) if as_json else _readable(line))


def _folder(session: str | None) -> Path:
    from amplifier_foundation.paths import NoHomeError, amplifier_home, newest_session, sessions_dir

    try:
        home = amplifier_home()
    except NoHomeError as error:
        raise click.ClickException(str(error)) from error
    if session is None:
        newest = newest_session(home, Path.cwd())
        if newest is None:
            click.echo(f"amplifier: no sessions in {sessions_dir(home, Path.cwd())}: run one first", err=True)
            sys.exit(exits.FAILURE)
        return newest
    here = sorted(sessions_dir(home, Path.cwd()).glob(f"{_literal(session)}*"))
    found = here or sorted((home / "projects").glob(f"*/sessions/{_literal(session)}*"))
    if len(found) != 1:
        what = "no session" if not found else f"{len(found)} sessions"
        click.echo(f"amplifier: {what} whose id starts with {session!r}", err=True)
        sys.exit(exits.FAILURE)
    return found[0]


def _literal(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _readable(line: LogLine) -> str:
    from amplifier_app_cli.ui.plain import plain

    facts = " ".join(f"{key}={_short(value)}" for key, value in line.data.items())
    status = f" {line.record['status']}" if line.record.get("status") else ""
    error = f" {line.error.get('message', '')}" if line.error else ""
    clock = (line.ts or "")[11:23]
    return plain(f"{line.seq or '':>5} {clock} {line.level:<7} {line.event}{status}{error} {facts}".rstrip())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\n", "\\n")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
