"""`amplifier session repair`: make a conversation one that can be gone on with."""

from __future__ import annotations

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import found_session
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import format_option, print_json
from amplifier_foundation.sessions.diagnosis import Diagnosis, diagnose
from amplifier_foundation.sessions.diagnosis import repair as repair_session
from amplifier_foundation.sessions.diagnosis import rewind as rewind_session
from amplifier_foundation.sessions.transcript import load_history


@click.command()
@click.argument("session")
@click.option("--rewind", "is_rewind", is_flag=True, help="Go back to the last turn before which all is well.")
@format_option
@report_errors
def repair(session: str, is_rewind: bool, output_format: str) -> None:
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
    if output_format == "json":
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
