"""`amplifier-digital-twin file-push`."""

from __future__ import annotations

from pathlib import Path

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.errors import TwinError


@click.command("file-push")
@click.argument("given", metavar="ID")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination")
@click.option("-r", "--recursive", is_flag=True, help="SOURCE is a folder.")
@click.option("--create-dirs/--no-create-dirs", default=True, show_default=True, help="Make the folders above it.")
@click.option("--mode", metavar="OCTAL", help="Permissions, as in 644.")
@click.option("--uid", type=click.IntRange(0), help="Owner inside.")
@click.option("--gid", type=click.IntRange(0), help="Group inside.")
def file_push(
    given: str,
    source: Path,
    destination: str,
    recursive: bool,
    create_dirs: bool,
    mode: str | None,
    uid: int | None,
    gid: int | None,
) -> None:
    """Copy the file SOURCE of this machine, or a folder, to DESTINATION in a universe."""
    source = source.absolute()
    if not source.exists():
        raise TwinError("file_missing", f"{source}: there is no such file", "name one that is there")
    if source.is_dir() and not recursive:
        raise TwinError("file_missing", f"{source}: is a folder", "say --recursive to copy all of it")
    file = {
        "src": str(source),
        "dest": destination,
        "recursive": recursive,
        "create_dirs": create_dirs,
        "mode": _mode(mode),
        "uid": uid,
        "gid": gid,
    }
    answer(request(given, "push", file=file))


def _mode(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise TwinError("bad_argument", f"--mode {text!r} is no permission in octal", "write it like 644 or 0755")
    return mode
