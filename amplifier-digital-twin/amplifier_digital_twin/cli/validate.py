"""`amplifier-digital-twin validate`."""

from __future__ import annotations

import os
from typing import Any

import click

from amplifier_digital_twin.cli.answers import answer, complain, say
from amplifier_digital_twin.cli.tree import FAIL, PASS
from amplifier_digital_twin.errors import TwinError


@click.command()
@click.argument("profile")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a variable of the profile.")
@click.option("--base", metavar="IMAGE", help="Plan with this base instead of the profile's.")
@click.option("--backend", metavar="BACKEND", help="Plan with this backend instead of the profile's.")
def validate(profile: str, variables: tuple[str, ...], base: str | None, backend: str | None) -> int:
    """Check PROFILE and say how it would be launched here: exit code 1 when it is valid, but cannot be launched."""
    import asyncio
    from dataclasses import replace

    from amplifier_digital_twin.probing import plan_here
    from amplifier_digital_twin.profile.load import load, parse_variables
    from amplifier_digital_twin.profile.load import validate as describe_profile

    values = parse_variables(variables)
    record = describe_profile(profile, values, os.environ)
    loaded = load(profile, values, os.environ).profile
    for note in record["notes"]:
        say(f"note: {note}")
    if backend is not None:
        loaded = replace(loaded, backend=backend)
    plan: dict[str, Any]
    try:
        plan = asyncio.run(plan_here(loaded, base))
    except TwinError as error:
        complain(error.message, error.remedy)
        plan = {"error": error.record()}
    answer({"name": loaded.name, **record, "plan": plan})
    return FAIL if "error" in plan else PASS
