"""The tree of commands: unknown names, and names of other releases."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from amplifier_app_cli.command_tree import ABSENT, Entry, LazyGroup
from amplifier_app_cli.main import main

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_BUNDLE = """\
---
bundle: {name: scripted, version: 0.1.0}
includes: [{bundle: "amplifier:behaviors/logging"}]
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers: [{module: provider-mock}]
---
You answer.
"""
#: Names of the published program, and our own earlier ones, that are not shown.
_ALIASES = (
    "agents dirs",
    "allowed-dirs",
    "allowed-dirs add",
    "bundle clear",
    "bundle current",
    "bundle explain",
    "bundle lock",
    "bundle unset",
    "bundle update",
    "bundle use",
    "denied-dirs",
    "module current",
    "module update",
    "policy backtest",
    "policy check",
    "policy revoke",
    "provider edit",
    "provider manage",
    "reset",
    "session cleanup",
    "session delete",
    "session rename",
    "session repair",
    "session resume",
    "settings dirs",
    "settings explain",
    "settings get",
    "settings reset",
    "source",
    "source add",
    "tool",
    "tool info",
    "tool invoke",
)


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
    ("words", "meant"),
    [
        (["hello"], 'amplifier run "hello"'),
        (["fix", "the", "test"], 'amplifier run "fix the test"'),
        (["say", "$5"], "amplifier run 'say $5'"),
        (["word"] * 50, 'amplifier run "…"'),
    ],
)
def test_one_unknown_word_is_never_a_prompt(words: list[str], meant: str) -> None:
    """A single word may be a mistyped command: it is a usage error, with how to run the words as a prompt."""
    result = CliRunner().invoke(main, words, prog_name="amplifier")
    assert result.exit_code == 2
    assert f"unknown command {words[0]!r}" in result.stderr
    assert f"To run it as a prompt: `{meant}`" in result.stderr


@pytest.mark.parametrize(
    "given",
    [
        ["say hello", "-B", "."],
        ["-B", ".", "say hello"],
        ["--bundle=.", "say hello"],
        ["-q", "say hello", "--bundle", "."],
        ["-B", ".", "--json", "say hello"],
    ],
)
def test_several_words_are_a_prompt(amplifier: Amplifier, project: Path, given: list[str]) -> None:
    """A quoted prompt without a command is run, and options of `run` may stand before it or behind it."""
    (project / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    result = amplifier(*given)
    assert result.returncode == 0, result.stderr
    assert "scripted answer" in result.stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--bundle", "minimal"], ["--mode", "chat", "--bundle", "minimal"]),
        (["-q", "--provider=mock"], ["--mode", "chat", "--provider=mock"]),
        (["--bundle", "minimal", "say hello"], ["--bundle", "minimal", "say hello"]),
    ],
)
def test_options_without_a_prompt_are_a_chat(
    monkeypatch: pytest.MonkeyPatch, given: list[str], words: list[str]
) -> None:
    """At a terminal, options of `run` without a prompt start a chat with them."""
    monkeypatch.setattr(sys, "stdin", Mock(isatty=lambda: True))
    assert main.make_context("amplifier", given).args == words


@pytest.mark.parametrize(
    "given",
    [
        ["--bundle", ".", "run", "say hello"],
        ["-B", ".", "-q", "run", "--", "say hello"],
        ["--bundle=.", "--json", "run", "say hello"],
    ],
)
def test_options_of_run_before_a_command(amplifier: Amplifier, project: Path, given: list[str]) -> None:
    """Options of `run` may stand before a command too, which gets them as if they stood behind it."""
    (project / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    result = amplifier(*given)
    assert result.returncode == 0, result.stderr
    assert "scripted" in result.stdout


def test_json_before_a_group(amplifier: Amplifier) -> None:
    """`--json` before a group and its command means the same as behind them."""
    assert json.loads(amplifier("--json", "session", "list").stdout) == {"sessions": [], "total": 0}


@pytest.mark.parametrize("options", [["-B", "."], ["--bundle=."], ["-q", "--json"], ["-m", "mock-model", "-B", "."]])
def test_one_unknown_word_behind_options_is_no_prompt(amplifier: Amplifier, project: Path, options: list[str]) -> None:
    """A mistyped command is a usage error with the nearest name, whatever options are before it."""
    (project / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    result = amplifier(*options, "sesion")
    assert result.returncode == 2
    assert "unknown command 'sesion': did you mean 'session'?" in result.stderr


def test_an_option_of_no_command(tmp_path: Path) -> None:
    """An option that neither the program nor `run` has is a usage error."""
    result = CliRunner().invoke(main, ["--bundel", "team"], prog_name="amplifier")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize("option", ["-c", "--continue", "-qc", "-cv"])
def test_continue_by_an_option(amplifier: Amplifier, project: Path, option: str) -> None:
    """`-c` is `continue`, with what follows it; without a session that is the same usage error."""
    (project / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    assert amplifier(option, "go on").returncode == 2
    assert amplifier("run", "-B", ".", "say hello").returncode == 0
    assert amplifier("-q", option, "and now", "--json").returncode == 0
    assert len(json.loads(amplifier("session", "list", "--json").stdout)["sessions"]) == 1


@pytest.mark.parametrize("option", ["-r", "--resume"])
def test_resume_by_an_option(amplifier: Amplifier, project: Path, option: str) -> None:
    """`-r ID` is `resume ID`, also as `--resume=ID`; an unknown session is exit code 2."""
    (project / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    assert amplifier("run", "-B", ".", "say hello").returncode == 0
    (session,) = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    assert amplifier(option, session["id"], "and now").returncode == 0
    assert amplifier(f"--resume={session['id'][:8]}", "and now").returncode == 0
    assert amplifier(option, "nothing", "x").returncode == 2


def test_options_of_the_program_behind_a_command(amplifier: Amplifier) -> None:
    """`-q` and the others mean the same before a command, behind it and between a group and its command."""
    said = amplifier("session", "list").stderr
    assert "there are no sessions" in said
    for given in (["-q", "session", "list"], ["session", "-q", "list"], ["session", "list", "--quiet"]):
        result = amplifier(*given)
        assert (result.returncode, result.stderr) == (0, ""), given
    assert "home" in amplifier("version", "--verbose", "--color", "never", "--no-input").stdout


@pytest.mark.parametrize("path", sorted(_ALIASES))
def test_names_of_the_published_program(path: str) -> None:
    """Every other name of the published program is accepted, with its options, and shown nowhere."""
    words = path.split()
    assert CliRunner().invoke(main, [*words, "--help"], prog_name="amplifier").exit_code == 0
    listed = CliRunner().invoke(main, [*words[:-1], "--help"], prog_name="amplifier").stdout
    is_shown = any(line.split()[:1] == words[-1:] for line in listed.partition("Commands:")[2].splitlines())
    assert not is_shown or words[0] not in main.list_commands(click.Context(main))


#: Options of the published program, by command.
_PUBLISHED_OPTIONS = {
    "run": "-B --bundle -p --provider -m --model --max-tokens --mode --resume -v --output-format",
    "continue": "-B --force-bundle --no-history --full-history --replay -s --replay-speed --show-thinking",
    "resume": "-n --limit -B --force-bundle",
    "session list": "-n --limit --all-projects --project -t --tree --format --detailed --compact",
    "session show": "-T --with-transcript --format --detailed --compact",
    "session fork": "-t --at-turn -n --name -r --resume --no-events",
    "session delete": "-f --force",
    "session cleanup": "-d --days -f --force",
    "bundle list": "-a --all --format --detailed --compact",
    "bundle use": "--local --project --global --scope",
    "bundle clear": "--all --local",
    "bundle add": "-n --name --app",
    "bundle remove": "--app",
    "bundle update": "--all --check -y --source",
    "module list": "-t --type",
    "module add": "-s --source",
    "module update": "--check-only --mutable-only",
    "module validate": "-t --type -o --output -v -b",
    "provider install": "--all -q --force",
    "source add": "--module --bundle --local",
    "tool list": "-b --bundle -m --modules",
    "tool info": "-b --bundle -m --module",
    "tool invoke": "-b --bundle -o --output",
    "agents list": "-b --bundle",
    "allowed-dirs list": "--session",
    "update": "--check-only -y --force -v",
    "reset": "--preserve --remove --full -y --dry-run --no-install",
    "version": "-v",
}


@pytest.mark.parametrize("path", _PUBLISHED_OPTIONS)
def test_options_of_the_published_program(path: str) -> None:
    """Every command of the published program accepts its options, shown or hidden."""
    command: click.Command | None = main
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    parser = command.make_parser(click.Context(command))
    known = {*parser._short_opt, *parser._long_opt}
    assert set(_PUBLISHED_OPTIONS[path].split()) - known == set()


def test_the_list_of_commands_is_short() -> None:
    """People see the commands they need: 24 names, and about 70 commands with all below them."""

    def leaves(group: click.Group) -> int:
        context = click.Context(group)
        found = [group.get_command(context, name) for name in group.list_commands(context)]
        return sum(leaves(one) if isinstance(one, click.Group) else 1 for one in found)

    assert len(main.list_commands(click.Context(main))) == 24
    assert leaves(main) <= 71


@pytest.mark.parametrize("path", sorted(ABSENT))
def test_commands_that_are_not_in_this_release(path: str) -> None:
    """A command of the published program that is not here says so in one line, whatever follows it."""
    for more in ([], ["list", "--all"]):
        result = CliRunner().invoke(main, [*path.split(), *more], prog_name="amplifier")
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert "not in this release" in result.stderr


@pytest.mark.parametrize("group", sorted(cast("LazyGroup", main).entries))
def test_no_summary_is_cut(group: str) -> None:
    """Lists of commands have whole summaries."""
    printed = CliRunner().invoke(main, [group, "--help"], prog_name="amplifier").output
    assert "..." not in printed.partition("\nCommands:")[2]


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
