"""`amplifier session fork`, `rename` and `repair`."""

from __future__ import annotations

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import found_session
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import Integer
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.diagnosis import Diagnosis, diagnose
from amplifier_foundation.sessions.diagnosis import repair as repair_session
from amplifier_foundation.sessions.diagnosis import rewind as rewind_session
from amplifier_foundation.sessions.fork import Forked, fork_session
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.sessions.transcript import load_history


@click.command()
@click.argument("session", type=SESSION)
@click.option("-t", "--at-turn", type=Integer(min=1), metavar="N", help="Up to the end of turn N.")
@click.option("--at-event", type=Integer(min=1), metavar="SEQ", help="Up to the event with this number.")
@click.option("-n", "--name", help="What to call the copy.")
@click.option("--no-events", is_flag=True, help="Copy the conversation without the log.")
@click.option("-r", "--resume", "is_resumed", is_flag=True, hidden=True)  # of the published program
@json_option
@report_errors
def fork(
    session: str,
    at_turn: int | None,
    at_event: int | None,
    name: str | None,
    no_events: bool,
    is_resumed: bool,
    as_json: bool,
) -> None:
    """Copy SESSION to continue from an earlier point of it, and print the id of the copy.

    \b
    Examples:
      amplifier session fork 3f2a
      amplifier session fork 3f2a --at-turn 2 --name "another way"
      amplifier run --resume "$(amplifier session fork 3f2a --at-event 41)" "And now?"

    `amplifier logs` shows the numbers of events. SESSION stays as it is, and may run meanwhile.
    """
    if at_turn is not None and at_event is not None:
        raise click.UsageError("--at-turn and --at-event: give one of them")

    app = current_app()
    if is_resumed and not app.can_chat:
        raise click.UsageError(
            "--resume chats, which needs a terminal: give the printed id to `amplifier run --resume`"
        )
    store, found = found_session(app, session)
    made = fork_session(found.folder, at_turn=at_turn, at_event=at_event, include_events=not no_events)
    if name is not None:
        _name(store, made, name)
    app.warn(made.warnings)
    command = f'amplifier run --resume {made.session_id} "…"'
    if as_json:
        print_json(
            {
                "id": made.session_id,
                "name": name and name.strip(),
                "folder": str(made.folder),
                "parent_id": made.parent_id,
                "turns": made.turns,
                "messages": made.messages,
                "events": made.events,
                "resume": ["amplifier", "run", "--resume", made.session_id],
                "warnings": list(made.warnings),
            }
        )
        return
    click.echo(made.session_id)
    app.inform(f"copied {counted(made.turns, 'turn')} and {counted(made.events, 'event')}; resume with: {command}")
    if is_resumed:
        from amplifier_app_cli.commands.resume import resume

        click.get_current_context().invoke(resume, session=made.session_id)


def _name(store: SessionStore, made: Forked, name: str) -> None:
    """Rename the copy; delete it if that fails, so that the command can be repeated."""
    fresh = store.find(str(made.folder))
    try:
        store.rename(fresh, name)
    except FoundationError:
        store.delete(fresh)
        raise


@click.command()
@click.argument("session", type=SESSION)
@click.argument("name")
@json_option
@report_errors
def rename(session: str, name: str, as_json: bool) -> None:
    """Give SESSION the name NAME, by which it can be found; an empty one takes the name away.

    \b
    Examples:
      amplifier session rename 3f2a "login bug"
      amplifier session rename "login bug" ""

    A name has up to 50 characters, and no other session of the project has it. A session may be renamed while it runs.
    """
    app = current_app()
    store, found = found_session(app, session)
    renamed = store.rename(found, name or None)
    if as_json:
        print_json({"id": renamed.id, "name": renamed.name, "folder": str(renamed.folder)})
    elif renamed.name:
        app.inform(f"session {renamed.id} is called {renamed.name!r} now")
    else:
        app.inform(f"session {renamed.id} has no name now")


@click.command()
@click.argument("session", type=SESSION)
@click.option("--rewind", "is_rewind", is_flag=True, help="Go back to the last turn before which all is well.")
@json_option
@report_errors
def repair(session: str, is_rewind: bool, as_json: bool) -> None:
    """Report what is wrong with the conversation of SESSION, and repair it.

    \b
    Examples:
      amplifier session repair 3f2a
      amplifier session repair 3f2a --rewind

    The conversation before is kept beside it as transcript.jsonl.backup. Resuming a session repairs it as well; this is
    for other programs that read the file, and for going back.
    """
    app = current_app()
    _, found = found_session(app, session)
    history = load_history(found.folder)
    diagnosis = diagnose(history.messages)
    problems = [*(text for text in (found.damaged, found.warning) if text), *history.problems]
    repaired = rewind_session(found.folder) if is_rewind else repair_session(found.folder)
    if as_json:
        facts: dict[str, object] = {"status": diagnosis.status, "failure_modes": diagnosis.failure_modes}
        facts |= {"orphaned_tool_ids": diagnosis.orphaned_tool_ids, "misplaced_tool_ids": diagnosis.misplaced_tool_ids}
        facts |= {"incomplete_turns": diagnosis.incomplete_turns, "problems": problems}
        done = {"actions": repaired.actions, "messages": repaired.messages, "turns": repaired.turns}
        print_json({"id": found.id, "found": facts, "done": done})
        return

    for line in (*problems, *_in_words(diagnosis)):
        click.echo(plain(f"found: {line}"))
    for line in repaired.actions:
        click.echo(plain(f"done: {line}"))
    length = f"{counted(repaired.messages, 'message')} of {counted(repaired.turns, 'turn')}"
    if repaired.actions:
        app.inform(f"the conversation has {length} now; the one before is kept as transcript.jsonl.backup")
    else:
        app.inform(f"the conversation is sound: {length}")
    if found.damaged:
        app.inform("the damaged metadata.json is left alone; resuming the session writes a new one")


def _in_words(diagnosis: Diagnosis) -> list[str]:
    lines = [mode.replace("_", " ") for mode in diagnosis.failure_modes if mode != "incomplete_turns"]
    if diagnosis.orphaned_tool_ids:
        lines.append(f"calls without a result, or results without a call: {', '.join(diagnosis.orphaned_tool_ids)}")
    if diagnosis.misplaced_tool_ids:
        lines.append(f"results in the wrong place: {', '.join(diagnosis.misplaced_tool_ids)}")
    if diagnosis.incomplete_turns:
        lines.append(f"turns without an answer: {', '.join(map(str, diagnosis.incomplete_turns))}")
    return lines
