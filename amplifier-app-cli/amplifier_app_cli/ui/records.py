"""Print results for programs: JSON on standard output, complete and safe to show."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click

from amplifier_app_cli.app import current_app
from amplifier_kit.guard.invisible_characters import printable_json

Function = TypeVar("Function", bound=Callable[..., Any])


def json_text(value: Any, *, indent: int | None = None, encoding: str | None = "utf-8") -> str:
    """Return valid JSON for any value: also with non-text keys, NaN, objects or cycles.

    Characters that cannot be seen are escaped, such as those that turn the direction of what follows. With another
    encoding than UTF-8 it is ASCII, so that no character is lost.
    """
    is_ascii = (encoding or "utf-8").lower().replace("-", "").replace("_", "") != "utf8"
    try:
        text = json.dumps(value, ensure_ascii=is_ascii, indent=indent, default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        from amplifier_core.data import clean

        text = json.dumps(clean(value), ensure_ascii=is_ascii, indent=indent, allow_nan=False)
    return printable_json(text)


def print_json(value: Any) -> None:
    """Print one JSON value, indented, on standard output."""
    click.echo(json_text(value, indent=2, encoding=sys.stdout.encoding))


def print_json_line(value: Any) -> None:
    """Print one JSON value on one line of standard output."""
    click.echo(json_text(value, encoding=sys.stdout.encoding))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, whole: Collection[str] = ()) -> None:
    """Print rows on standard output, as a table that fits a terminal."""
    from amplifier_app_cli.ui.layout import table, terminal_width

    click.echo(table(headings, rows, terminal_width(), whole=whole))


def print_list(
    as_json: bool,
    records: Sequence[object],
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    empty: str,
    whole: Collection[str] = (),
) -> None:
    """Print records as JSON, or the same as rows of a table; without any, report `empty` on standard error."""
    if as_json:
        print_json(records)
    elif rows:
        print_table(headings, rows, whole=whole)
    else:
        current_app().inform(empty)


def json_option(command: Function) -> Function:
    """Add `--json` to a command, as `as_json`; the published `--format text|json` and `-o` mean the same, hidden.

    The published `--detailed` and `--compact` are accepted and change nothing.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
    @click.option(
        "--format",
        "--output-format",
        "--output",
        "-o",
        "published_format",
        type=click.Choice(["text", "human", "json"]),
        hidden=True,
    )
    @click.option("--detailed", is_flag=True, hidden=True, expose_value=False)
    @click.option("--compact", is_flag=True, hidden=True, expose_value=False)
    @functools.wraps(command)
    def wrapped(*arguments: Any, as_json: bool, published_format: str | None, **options: Any) -> Any:
        return command(*arguments, as_json=as_json or published_format == "json", **options)

    return wrapped  # type: ignore[return-value]
