"""`amplifier continue` and `amplifier resume`: go on with a session."""

from __future__ import annotations

from typing import Any

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.running.command import output_options, read_prompt, request_of, run_options, run_to_exit


@click.command(name="continue")
@click.argument("prompt", required=False)
@click.option("-B", "--force-bundle", "bundle", help="Use this bundle instead of the recorded one.")
@click.option("--no-history", is_flag=True, help="Show nothing of what was said before.")
@click.option("--full-history", is_flag=True, help="Show everything that was said before.")
@output_options
@run_options
@told
def continue_(prompt: str | None, no_history: bool, full_history: bool, **wishes: Any) -> None:
    """Go on with the newest session of this project: chat, or answer PROMPT.

    \b
    Examples:
      amplifier continue
      amplifier continue "And the tests?"
    """
    from amplifier_foundation.sessions.store import SessionStore

    app = current_app()
    newest = SessionStore(app.home).newest(app.project)
    if newest is None:
        raise click.UsageError(f"there is no session of {app.project} yet: run one with `amplifier run PROMPT`")
    _go_on(app, newest.id, prompt, wishes, _turns(no_history, full_history))


@click.command()
@click.argument("session", required=False)
@click.argument("prompt", required=False)
@click.option("-B", "--force-bundle", "bundle", help="Use this bundle instead of the recorded one.")
@click.option("-n", "--limit", default=10, show_default=True, help="How many sessions to choose from.")
@click.option("--no-history", is_flag=True, help="Show nothing of what was said before.")
@click.option("--full-history", is_flag=True, help="Show everything that was said before.")
@output_options
@run_options
@told
def resume(
    session: str | None, prompt: str | None, limit: int, no_history: bool, full_history: bool, **wishes: Any
) -> None:
    """Go on with SESSION (an id, its beginning, or a name), or choose one: chat, or answer PROMPT.

    \b
    Examples:
      amplifier resume
      amplifier resume 3f2a
      amplifier resume my-session "And the tests?"
    """
    app = current_app()
    _go_on(app, session or _picked(app, limit), prompt, wishes, _turns(no_history, full_history))


def _go_on(app: App, session: str, prompt: str | None, wishes: dict[str, Any], recap: int | None) -> None:
    import sys

    chosen = "stream-json" if wishes.pop("as_json") else wishes.pop("output_format")
    wishes.pop("output_format", None)
    request = request_of({**wishes, "resume": session})
    if prompt is None and sys.stdin is not None and sys.stdin.isatty():
        from amplifier_app_cli.running.talk import talk

        run_to_exit(lambda: talk(app, request, recap_turns=recap))
    text = read_prompt(prompt)
    from amplifier_app_cli.running.once import run_once
    from amplifier_app_cli.stdout_guard import guarded_stdout

    with guarded_stdout() as out:
        run_to_exit(lambda: run_once(app, request, text, chosen, out))


def _turns(no_history: bool, full_history: bool) -> int | None:
    """Return how many turns to show again: some, none, or all (None)."""
    from amplifier_app_cli.chat.start import RECENT

    return 0 if no_history else None if full_history else RECENT


def _picked(app: App, limit: int) -> str:
    """Let the person choose one of the newest sessions; raises UsageError when nobody can be asked."""
    from amplifier_app_cli.ui.say import say
    from amplifier_app_cli.ui.table import table, terminal_width
    from amplifier_foundation.sessions.store import SessionStore

    sessions = SessionStore(app.home).list(app.project, limit=limit)
    if not sessions:
        raise click.UsageError(f"there is no session of {app.project} yet: run one with `amplifier run PROMPT`")
    if not app.can_ask:
        raise click.UsageError("name the session to go on with: `amplifier session list` shows them")
    rows = [
        [number, one.id[:8], one.updated.strftime("%Y-%m-%d %H:%M"), one.name or one.first_prompt or ""]
        for number, one in enumerate(sessions, start=1)
    ]
    say(table(["", "id", "last active", "name or first prompt"], rows, terminal_width()))
    number = click.prompt("Go on with", type=click.IntRange(1, len(sessions)), err=True)
    return sessions[number - 1].id
