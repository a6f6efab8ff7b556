"""The tree of commands: unknown names, and names of other releases."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from amplifier_app_cli.absent import ABSENT
from amplifier_app_cli.main import main
from amplifier_app_cli.tree import Entry, LazyGroup

Amplifier = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("given", "meant"),
    [(["sesion"], "session"), (["session", "lst"], "list"), (["bundel"], "bundle"), (["continu"], "continue")],
)
def test_a_slip_of_the_finger(given: list[str], meant: str) -> None:
    """For a command that does not exist, the one that was probably meant is named."""
    result = CliRunner().invoke(main, given, prog_name="amplifier")
    assert result.exit_code == 2
    assert f"did you mean '{meant}'?" in result.output
    assert result.stdout == ""


@pytest.mark.parametrize("path", sorted(ABSENT))
def test_commands_that_are_not_in_this_release(path: str) -> None:
    """A command of the published program that is not here says so in one line, whatever follows it."""
    for more in ([], ["list", "--all"]):
        result = CliRunner().invoke(main, [*path.split(), *more], prog_name="amplifier")
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert "not in this release" in result.stderr


def test_a_list_of_commands_imports_none() -> None:
    """The list shows the summaries; a command's code is imported when it is asked for, and only then."""
    group = LazyGroup("g", entries={"one": Entry("no.such.module:it", "The first.")})
    result = CliRunner().invoke(group, ["--help"])
    assert "The first." in result.output
    with pytest.raises(ImportError):
        group.get_command(click.Context(group), "one")


def test_version_comes_before_everything(amplifier: Amplifier) -> None:
    """`--version` needs no home and no settings."""
    assert amplifier("--version", HOME="/nonexistent").stdout.startswith("amplifier ")
