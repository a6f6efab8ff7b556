"""`amplifier-digital-twin check-readiness`."""

from __future__ import annotations

import click

from amplifier_digital_twin.cli.answers import answer
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.cli.tree import FAIL, PASS


@click.command("check-readiness")
@click.argument("given", metavar="ID")
def check_readiness(given: str) -> int:
    """Look once at every sign of readiness that the profile names: exit code 0 when all are there, else 1."""
    result = request(given, "check-readiness")
    answer(result)
    return PASS if result.get("ready") else FAIL
