"""Print results for programs: JSON on standard output, complete and safe to show."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from amplifier_app_cli.ui.plain import plain_json

Function = TypeVar("Function", bound=Callable[..., Any])


def print_json(value: Any) -> None:
    """Print one JSON value, indented, on standard output."""
    click.echo(plain_json(json.dumps(value, ensure_ascii=False, indent=2, default=str)))


def print_json_line(value: Any) -> None:
    """Print one JSON value on one line of standard output."""
    click.echo(plain_json(json.dumps(value, ensure_ascii=False, default=str)))


def format_option(command: Function) -> Function:
    """Add `--format text|json` to a command, as `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(command)
