"""`amplifier continue`, `amplifier resume` and `amplifier session resume`: resume a session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.completion import BUNDLE, SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import Integer, Number
from amplifier_app_cli.run.command import (
    answer,
    converse,
    format_of,
    output_options,
    read_prompt,
    request_of,
    run_options,
)

if TYPE_CHECKING:
    from amplifier_app_cli.chat import Recap
    from amplifier_app_cli.session_request import SessionRequest
    from amplifier_foundation.prompt.user_input import UserInput

Function = TypeVar("Function", bound=Callable[..., Any])

#: The default speed of a replay, relative to the original pace.
_REPLAY_SPEED = 2.0


def _history_options(command: Function) -> Function:
    for option in (
        click.option("--show-thinking", is_flag=True, help="Show what the model thought, too, of what is shown again."),
        click.option(
            "-s",
            "--replay-speed",
            type=Number(0, min_open=True),
            help="How many times as fast, 2.0 when not given; needs --replay.",
        ),
        click.option(
            "--replay", is_flag=True, help="Show everything that was said before at the pace it was said, in a chat."
        ),
        click.option("--full-history", is_flag=True, help="Show everything that was said before, in a chat."),
        click.option("--no-history", is_flag=True, help="Show nothing of what was said before, in a chat."),
        click.option(
            "-B", "--force-bundle", "bundle", type=BUNDLE, help="Use this bundle instead of the recorded one."
        ),
    ):
        command = option(command)
    return command


@click.command(name="continue")
@click.argument("prompt", required=False)
@_history_options
@output_options
@run_options
@report_errors
def continue_(prompt: str | None, **wishes: Any) -> None:
    """Resume the newest session of this project: chat, or answer PROMPT.

    \b
    Examples:
      amplifier continue
      amplifier continue "And the tests?"
    """
    app = current_app()
    _go_on(app, lambda: _newest(app), prompt, wishes)


@click.command()
@click.argument("session", required=False, type=SESSION)
@click.argument("prompt", required=False)
@click.option("-n", "--limit", type=Integer(1), default=10, show_default=True, help="How many sessions to choose from.")
@_history_options
@output_options
@run_options
@report_errors
def resume(session: str | None, prompt: str | None, limit: int, **wishes: Any) -> None:
    """Resume SESSION (an id, its beginning, or a name), or choose one: chat, or answer PROMPT.

    \b
    Examples:
      amplifier resume
      amplifier resume 3f2a
      amplifier resume my-session "And the tests?"
    """
    app = current_app()
    _go_on(app, lambda: session or _picked(app, limit), prompt, wishes)


def _go_on(app: App, session: Callable[[], str], prompt: str | None, wishes: dict[str, Any]) -> None:
    if prompt is None and sys.stdin is not None and sys.stdin.isatty():
        recap = _recap(wishes)
        request = request_of(app, {**wishes, "resume": session()})
        converse(app, wishes, request, recap=recap)

    def asked() -> tuple[SessionRequest, UserInput]:
        _recap(wishes)  # report contradicting options, also where nothing is shown again
        request = request_of(app, {**wishes, "resume": session()})
        return request, read_prompt(prompt, wishes["max_stdin"], is_optional=True)

    answer(app, format_of(wishes), asked)


def _recap(wishes: dict[str, Any]) -> Recap:
    """Return what to show again: none, all, or as much as a chat shows by itself; raises UsageError for both."""
    from amplifier_app_cli.chat import RECENT_TURNS, Recap

    is_whole = wishes["full_history"] or wishes["replay"]
    if wishes["no_history"] and (is_whole or wishes["show_thinking"]):
        raise click.UsageError("--no-history shows nothing: leave out --full-history, --replay and --show-thinking")
    if wishes["replay_speed"] is not None and not wishes["replay"]:
        raise click.UsageError("--replay-speed needs --replay")
    turns = 0 if wishes["no_history"] else None if is_whole else RECENT_TURNS
    speed = (wishes["replay_speed"] or _REPLAY_SPEED) if wishes["replay"] else None
    return Recap(turns, speed, wishes["show_thinking"])


def _newest(app: App) -> str:
    from amplifier_foundation.sessions.store import SessionStore

    newest = SessionStore(app.home).newest(app.project)
    if newest is None:
        raise click.UsageError(f"{app.project} has no session yet: run one with `amplifier run PROMPT`")
    return newest.id


def _picked(app: App, limit: int) -> str:
    """Let the user choose one of the newest sessions; raises UsageError without a terminal."""
    from amplifier_app_cli.ui.layout import table, terminal_width
    from amplifier_app_cli.ui.say import say
    from amplifier_foundation.sessions.store import SessionStore

    sessions = SessionStore(app.home).list(app.project, limit=limit)
    if not sessions:
        raise click.UsageError(f"{app.project} has no session yet: run one with `amplifier run PROMPT`")
    if not app.can_ask:
        raise click.UsageError("name the session to resume: `amplifier session list` shows them")
    rows = [
        [number, one.id[:8], one.updated.strftime("%Y-%m-%d %H:%M"), one.name or one.first_prompt or ""]
        for number, one in enumerate(sessions, start=1)
    ]
    say(table(["", "id", "last active", "name or first prompt"], rows, terminal_width(sys.stderr)))
    number = click.prompt("Resume", type=Integer(1, len(sessions)), err=True)
    return sessions[number - 1].id
