"""`amplifier approval`: list and answer the pending calls of sessions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.approval.question import Line, Pages
from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import terminal_size
from amplifier_app_cli.ui.plain import on_one_line, visible
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import say
from amplifier_foundation.approvals.answered_by import account_name
from amplifier_foundation.approvals.pending_calls import Answer, PendingCall, PendingCalls, PendingCallsError
from amplifier_foundation.sessions.store import SessionStore


@click.group(cls=LazyGroup)
def approval() -> None:
    """Answer pending calls: a run without a terminal ends with exit code 3 when it needs a person's approval.

    \b
    Examples:
      amplifier approval list
      amplifier approval allow 3f2a
      amplifier approval deny 3f2a 1c07b9aa --reason "use the test database"
      amplifier run --resume 3f2a
    """


@approval.command(name="list", short_help="List the pending calls.")
@click.argument("session", required=False, type=SESSION)
@json_option
@report_errors
def list_calls(session: str | None, as_json: bool) -> None:
    """List the pending calls of SESSION, or of all sessions of this project.

    \b
    Examples:
      amplifier approval list
      amplifier approval list 3f2a --json
    """
    app = current_app()
    store = SessionStore(app.home)
    found = [store.find(session, app.project)] if session else list(store.list(app.project))
    rows: list[tuple[str, PendingCall]] = []
    for one in found:
        try:
            rows += [(one.id, call) for call in PendingCalls(one.folder).list()]
        except PendingCallsError as error:
            if session:
                raise
            say(f"note: {error}")  # the calls of other sessions are still listed
    if as_json:
        print_json([_record(session_id, call) for session_id, call in rows])
        return
    if not rows:
        app.inform("no call waits for an answer")
        return

    for session_id, call in rows:
        click.echo(visible(f"{call.id}  session {session_id[:8]}  {call.answer or 'waits'}  {call.asked}"))
        click.echo("\n".join(_lines(call)))


@approval.command(short_help="Allow pending calls, once.")
@click.argument("session", type=SESSION)
@click.argument("calls", nargs=-1, metavar="[CALL]...")
@click.option("-y", "--yes", is_flag=True, help="Do not wait for the pages of a long call to be read.")
@json_option
@report_errors
def allow(session: str, calls: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Allow the pending calls of SESSION, once: all of them, or those with the ids CALL.

    They run when the session is resumed, exactly as they were asked about, unless a rule denies them by then. What is
    allowed is shown first, on standard error; at a terminal, what is longer than the screen comes in pages, and is
    allowed after the last one.

    \b
    Examples:
      amplifier approval allow 3f2a
      amplifier approval allow 3f2a 1c07b9aa
    """
    _answer(session, calls, "allow", "", as_json, is_read=yes)


@approval.command(short_help="Deny pending calls.")
@click.argument("session", type=SESSION)
@click.argument("calls", nargs=-1, metavar="[CALL]...")
@click.option("--reason", default="", help="Why, for the model to read.")
@json_option
@report_errors
def deny(session: str, calls: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Deny the pending calls of SESSION: all of them, or those with the ids CALL.

    A call that was allowed can be denied until it runs: by its id, or when no other call of the session waits.

    \b
    Examples:
      amplifier approval deny 3f2a
      amplifier approval deny 3f2a 1c07b9aa --reason "use the test database"
    """
    _answer(session, calls, "deny", reason, as_json)


def _answer(
    session: str, calls: tuple[str, ...], answer: Answer, note: str, as_json: bool, *, is_read: bool = False
) -> None:
    app = current_app()
    found = SessionStore(app.home).find(session, app.project)
    pending, by = PendingCalls(found.folder), account_name()
    if answer == "deny":
        answered = pending.deny(calls, note, by)
    else:
        shown = pending.unanswered(calls)
        _show(app, shown, is_read=is_read)
        # Only what was shown: another process may have asked about more meanwhile.
        answered = pending.answer([call.id for call in shown], answer, note, by, shown=shown) if shown else ()
    if not answered:
        raise PendingCallsError(f"session {found.id}: no call waits for an answer")
    if as_json:
        print_json([_record(found.id, call) for call in answered])
    word = "allowed" if answer == "allow" else "denied"
    for call in answered:
        app.inform(f"{word}: {call.id} ({call.tool_name})")
    app.inform(f"resume with `amplifier run --resume {found.id}`")


def _show(app: App, calls: Sequence[PendingCall], *, is_read: bool) -> None:
    """Show everything that is to be allowed; exit with code 1 if the person declines or stops reading."""
    pages = Pages([Line(line) for call in calls for line in _lines(call)])
    if not app.can_ask or is_read:
        click.echo(pages.take(sys.maxsize, sys.maxsize, Ink(False)), err=True)
        return
    is_long = False
    while True:
        width, rows = terminal_size(sys.stderr)
        click.echo(pages.take(width, rows - 2, Ink(False)), err=True)
        if pages.is_over:
            break
        is_long = True
        _require(f"{pages.share}% shown [Enter = next page, n = allow nothing] ", ("", "space", "more"))
    if is_long:
        _require("Allow? [y/n] ", ("y", "yes"))


def _require(label: str, wanted: tuple[str, ...]) -> None:
    """Ask on standard error; exit with code 1 for any answer but those in `wanted`, and at the end of input."""
    click.echo(label, err=True, nl=False)
    typed = sys.stdin.readline()
    if not typed or typed.strip().lower() not in wanted:
        click.echo("nothing was allowed", err=True)
        raise click.exceptions.Exit(exits.FAILURE)


def _lines(call: PendingCall) -> list[str]:
    """Return the questions about a call and its input, each on one line with hidden characters visible."""
    asked = [f"  {one.prompt}{f' {one.about}' if one.about else ''}" for one in call.questions]
    tool_input = json.dumps(call.tool_input, ensure_ascii=False)
    return [on_one_line(text) for text in (*asked, f"  {call.tool_name}: {tool_input}")]


def _record(session_id: str, call: PendingCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "session_id": session_id,
        "tool": call.tool_name,
        "tool_call_id": call.tool_call_id,
        "input": call.tool_input,
        "asked": call.asked,
        "answer": call.answer,
        "questions": [
            {
                "prompt": one.prompt,
                "action": one.action,
                "about": one.about or None,
                "answer": one.answer,
                "by": one.by,
                "reason": one.note,
            }
            for one in call.questions
        ],
    }
