"""`amplifier-digital-twin check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amplifier_digital_twin.cli.answers import answer, complain, say
from amplifier_digital_twin.cli.launch_options import launch_options
from amplifier_digital_twin.cli.launching import Options, run_universe
from amplifier_digital_twin.cli.tree import ERROR, FAIL, PASS
from amplifier_digital_twin.errors import TwinError


@click.command()
@launch_options
@click.option("--evidence", type=click.Path(path_type=Path), metavar="DIR", help="Where the evidence is put.")
@click.option("--keep", is_flag=True, help="Do not destroy the universe, whatever the verdict.")
def check(evidence: Path | None, **options: Any) -> int:
    """Launch PROFILE, run its checks, collect the evidence and destroy the universe.

    The exit code is the verdict: 0 pass, 1 fail, 2 when it could not be found out. Evidence goes to DIR, a folder that
    is empty or does not exist yet; without one to `digital-twin/evidence/ID` in the home of Amplifier. Ctrl-C destroys
    the universe.
    """
    result = run_universe("launch-and-check", Options(**options), _empty(evidence), tell=answer)
    left = result.get("left_behind")
    if left is not None:
        complain(left["message"], left["remedy"])
        return ERROR
    verdict = result.get("verdict")
    say(f"verdict: {verdict}")
    return {"pass": PASS, "fail": FAIL}.get(str(verdict), ERROR)


def _empty(folder: Path | None) -> Path | None:
    """Return the absolute path of a folder for evidence; raise TwinError when there is something in it."""
    if folder is None:
        return None
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TwinError(
            "evidence_exists",
            f"{folder}: there is something already, which would be taken for evidence of this run",
            "name a folder that is empty or does not exist yet",
        )
    return folder
