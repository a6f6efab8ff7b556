"""Options that commands about past sessions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Function = Callable[..., Any]


def days_option(command: Function) -> Function:
    """Add `--days` to a command: how far it looks back."""
    return click.option(
        "--days",
        type=click.FloatRange(min=0, min_open=True, max=36500),
        default=30,
        show_default=True,
        help="Look at sessions of so many days.",
    )(command)
