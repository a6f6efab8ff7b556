"""Options have one spelling that is shown; those of the published program are accepted and hidden."""

import click
import pytest
from click.testing import CliRunner

from amplifier_app_cli.options import check_option, yes_option
from amplifier_app_cli.ui.records import json_option


@click.command()
@check_option
@yes_option()
@json_option
def command(is_check: bool, is_sure: bool, as_json: bool) -> None:
    click.echo(f"{is_check} {is_sure} {as_json}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "False False False"),
        ("--check -y --json", "True True True"),
        ("--check-only --force --format json", "True True True"),
        ("-f -o json", "False True True"),
        ("--format text", "False False False"),
    ],
)
def test_published_spellings_mean_the_same(given: str, expected: str) -> None:
    """`--format json`, `--check-only`, `-f` and `--force` work as `--json`, `--check` and `--yes` do."""
    result = CliRunner().invoke(command, given.split())
    assert (result.exit_code, result.output.strip()) == (0, expected)


def test_help_shows_one_spelling() -> None:
    """`--help` has the shown spelling only."""
    text = CliRunner().invoke(command, ["--help"]).output
    assert all(name in text for name in ("--check", "-y, --yes", "--json"))
    assert not any(name in text for name in ("--check-only", "--force", "-f", "--format", "-o,"))
