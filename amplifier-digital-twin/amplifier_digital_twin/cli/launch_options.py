"""What `launch` and `check` have in common on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from amplifier_digital_twin.cli.launching import LEASE

Function = TypeVar("Function", bound=Callable[..., Any])


def launch_options(command: Function) -> Function:
    """Add it to a command, whose arguments are then those of `Options`."""
    for option in reversed(
        (
            click.argument("profile"),
            click.option(
                "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a variable of the profile."
            ),
            click.option("--name", metavar="NAME", help="Name by which the universe can be called."),
            click.option("--base", metavar="IMAGE", help="Stand on this instead of the profile's base: `host`."),
            click.option("--backend", metavar="BACKEND", help="embedded, podman, docker or incus, whatever it says."),
            click.option("--lease", default=LEASE, show_default=True, help="How long it may exist: 30m, 8h, 2d."),
        )
    ):
        command = option(command)
    return command
