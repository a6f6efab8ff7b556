"""The tree of commands: unknown names, and names of other releases."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from amplifier_app_cli.command_tree import ABSENT, Entry, LazyGroup
from amplifier_app_cli.main import main

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


@pytest.mark.parametrize(
    ("prompt", "meant"),
    [
        ("what is here?", 'amplifier run "what is here?"'),
        ('say "hi" for $5', "amplifier run 'say \"hi\" for $5'"),
        ("word " * 50, 'amplifier run "…"'),
    ],
)
def test_a_prompt_in_place_of_a_command(prompt: str, meant: str) -> None:
    """Text with a blank is no command: the hint is how to run it as a prompt."""
    result = CliRunner().invoke(main, [prompt], prog_name="amplifier")
    assert result.exit_code == 2
    assert f"did you mean `{meant}`?" in result.stderr


@pytest.mark.parametrize("given", [["--bundle", "team"], ["-B", "./team"], ["--bundle=team"]])
def test_a_bundle_without_a_command(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants to chat with a bundle is told how, with the folder that was named."""
    (tmp_path / "team").mkdir()
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, given, prog_name="amplifier")
    assert result.exit_code == 2
    assert "chat with a bundle: `amplifier run --mode chat --bundle ./team`" in result.stderr


def test_other_options_that_are_none(tmp_path: Path) -> None:
    """Only what `run` would take gets that hint."""
    result = CliRunner().invoke(main, ["--bundel", "team"], prog_name="amplifier")
    assert result.exit_code == 2
    assert "--mode chat" not in result.stderr


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
