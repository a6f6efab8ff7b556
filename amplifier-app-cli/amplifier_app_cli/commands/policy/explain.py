"""`amplifier policy explain`: why an action is allowed, asked about or denied, and what would change that."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.policy.load import judgement_record, permissions_in, rule_record
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import folded, terminal_width
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.policy.explain import Explanation
from amplifier_foundation.policy.explain import explain as explain_action
from amplifier_foundation.policy.permissions import Judgement, known_action, named_details
from amplifier_kit.guard.policy.facts import facts

_ACTION = re.compile(r"(filesystem|process|network|session|mcp|tool)\.[A-Za-z0-9_.-]+")
#: Actions that most rules are about; a word similar to one of them is probably mistyped, not a command.
_KNOWN = ("filesystem.read", "filesystem.write", "process.exec", "network.fetch", "session.spawn", "mcp.call")


@click.command()
@click.argument("words", nargs=-1)
@click.option("--command", "command", metavar="TEXT", help="A command line, as a session would give it to bash.")
@click.option("--read", "read", metavar="PATH", help="A file or folder to read.")
@click.option("--write", "write", metavar="PATH", help="A file to write.")
@click.option("--fetch", "fetch", metavar="URL", help="An address to fetch.")
@click.option("--tool", "tool", metavar="NAME", help="The tool that does it; alone: the tool itself.")
@json_option
@report_errors
def explain(
    words: tuple[str, ...],
    command: str | None,
    read: str | None,
    write: str | None,
    fetch: str | None,
    tool: str | None,
    as_json: bool,
) -> None:
    """Explain the verdict on one action: for each part of it, the rule and where it is.

    WORDS are an action, such as session.spawn, or the words of a command. Nothing is run, written or fetched.

    \b
    Examples:
      amplifier policy explain --command "git push; rm x"
      amplifier policy explain -- git status --short
      amplifier policy explain --write src/main.py
      amplifier policy explain --fetch https://example.com/
      amplifier policy explain session.spawn
    """
    action, details = _asked(words, {"command": command, "read": read, "write": write, "fetch": fetch}, tool)
    app = current_app()
    if (hint := _slip(words)) is not None:
        app.inform(f"note: {words[0]!r} is taken for a command; did you mean the action {hint!r}?")
    permissions = permissions_in(app, app.project)
    _check_path(action, details, permissions.project)
    explanation = explain_action(permissions, action, details)
    if as_json:
        print_json(_record(explanation))
    else:
        _print(explanation)
    for problem in permissions.problems:
        app.inform(f"problem: {problem.where}: {problem.message}")


def _asked(words: tuple[str, ...], given: dict[str, str | None], tool: str | None) -> tuple[str, dict[str, Any]]:
    """Return the action that is meant, with its details."""
    named = {key: value for key, value in given.items() if value is not None}
    if len(named) + bool(words) > 1:
        raise click.UsageError("ask for one thing: words, --command, --read, --write or --fetch")
    details: dict[str, Any] = {"tool_name": tool} if tool else {}
    for key, value in named.items():
        action, name = _MEANT[key]
        text = {"tool_input": {"url": value}} if key == "fetch" else {name: value}
        return action, {**details, **text}
    if len(words) == 1 and _ACTION.fullmatch(words[0]):
        return words[0], details
    if words:
        # One word is a command line as it was typed; several were taken apart by the shell.
        return "process.exec", {**details, "command": words[0] if len(words) == 1 else shlex.join(words)}
    if tool:
        return f"tool.{tool}", details
    raise click.UsageError("say what: an action, a command, --read PATH, --write PATH, --fetch URL or --tool NAME")


def _check_path(action: str, details: dict[str, Any], project: Path) -> None:
    """Raise UsageError for an action on a file that is not named: every verdict on it would mislead."""
    acting = known_action(action, details)
    option = {"filesystem.read": "--read", "filesystem.write": "--write"}.get(acting)
    if option is not None and not facts(acting, named_details(action, details), project).spelled:
        raise click.UsageError(f"the verdict on {acting} depends on the file: say which, with {option} PATH")


def _slip(words: tuple[str, ...]) -> str | None:
    """Return the action that one word may have been meant for, None when it is one, or a command like any other."""
    if len(words) != 1 or _ACTION.fullmatch(words[0]):
        return None
    return next(iter(difflib.get_close_matches(words[0], _KNOWN, n=1, cutoff=0.8)), None)


_MEANT = {
    "command": ("process.exec", "command"),
    "read": ("filesystem.read", "path"),
    "write": ("filesystem.write", "path"),
    "fetch": ("network.fetch", "url"),
}


def _print(explanation: Explanation) -> None:
    """Print an explanation; a terminal gets its lines broken between words."""
    text, width = "\n".join(plain(line) for line in _lines(explanation)), terminal_width()
    click.echo(text if width is None else folded(text, width))


def _record(explanation: Explanation) -> dict[str, Any]:
    return {
        "action": explanation.action,
        **judgement_record(explanation.judgement),
        "parts": [judgement_record(part) for part in explanation.parts],
        "rules_that_would_allow": [rule_record(rule) for rule in explanation.rules],
        "advice": list(explanation.advice),
    }


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"{explanation.judgement.verdict}: {explanation.action}"
    for part in explanation.parts:
        yield f"  {part.verdict:<5}  {part.what}"
        yield f"         {_because(part)}"
    for advice in explanation.advice:
        yield f"to change it: {advice}"


def _because(part: Judgement) -> str:
    if part.rule is None:
        return part.reason
    place = "the program's own rules" if part.scope == "default" else part.rule.where or part.scope
    said = part.reason.removesuffix(f" ({part.rule.where})")
    return f"`{part.rule}`, {place}" + ("" if str(part.rule) in said else f": {said}")
