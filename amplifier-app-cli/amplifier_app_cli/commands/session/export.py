"""`amplifier session export`: write a session to a file or to standard output."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import found_session
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import print_json
from amplifier_foundation.paths import expanded
from amplifier_foundation.sessions.export import ExportFormat
from amplifier_foundation.sessions.export import export as write_export
from amplifier_foundation.sessions.metadata import SessionSummary
from amplifier_kit.guard.invisible_characters import printable_json

_FORMATS: Final[dict[str, ExportFormat]] = {"md": "md", "json": "json", "jsonl": "jsonl", "tar": "tar.gz"}
_STDOUT: Final = "-"


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--as",
    "form",
    type=click.Choice(list(_FORMATS)),
    help="md to read, json for metadata and messages, jsonl for messages, tar for all files (log and kept copies of "
    "files included). By default the suffix of FILE decides, else md.",
)
@click.option("-o", "--output", metavar="FILE", help="The file or folder to write to; - is standard output.")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print the path of the file in one JSON document.")
@report_errors
def export(session: str, form: str | None, output: str | None, force: bool, as_json: bool) -> None:
    """Write SESSION to a file, in the current folder under its id unless FILE is given, and print the file's path.

    \b
    Examples:
      amplifier session export 3f2a
      amplifier session export 3f2a -o review.json
      amplifier session export 3f2a --as jsonl -o - | jq .role

    In md, json and jsonl secrets are masked; tar has the files as they are.
    """
    if as_json and output == _STDOUT:
        raise click.UsageError("--json prints where the file is: give another -o, or --as json for the session as JSON")
    app = current_app()
    _, found = found_session(app, session)
    if output == _STDOUT:
        app.warn(_to_stdout(found, _FORMATS[form or "md"]))
        return
    target = expanded(output) if output else Path()
    chosen = _FORMATS[form] if form else None if output and not target.is_dir() and target.suffix else "md"
    written = write_export(found, target, chosen, overwrite=force)
    app.warn(written.warnings)
    if as_json:
        print_json({"id": found.id, "file": str(written.path.resolve())})
    else:
        click.echo(written.path)


def _to_stdout(session: SessionSummary, form: ExportFormat) -> tuple[str, ...]:
    """Write the export to standard output, without what would steer a terminal; return what should be said."""
    if form == "tar.gz" and sys.stdout.isatty():
        raise click.UsageError("an archive is not for the terminal: name a file with -o, or pipe it")
    out = sys.stdout.buffer
    with tempfile.TemporaryDirectory() as folder:
        written = write_export(session, Path(folder) / f"session.{form}", form)
        if form == "tar.gz":
            with open(written.path, "rb") as file:
                shutil.copyfileobj(file, out)
        else:
            text = written.path.read_bytes().decode("utf-8")
            out.write((plain(text) if form == "md" else printable_json(text)).encode("utf-8", "replace"))
    out.flush()
    return written.warnings
