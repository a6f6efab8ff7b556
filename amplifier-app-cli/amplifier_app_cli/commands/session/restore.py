"""`amplifier session restore`: restore files that a session has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.session.facts import found_session, when
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_foundation.sessions.checkpoints import (
    SESSION_RESTORE,
    Checkpoint,
    Checkpoints,
    FileState,
    RestoreConflictError,
    Restored,
    RestorePlan,
)
from amplifier_foundation.sessions.log import append_event
from amplifier_kit.log.files import SessionLogBusy


@click.command()
@click.argument("session", type=SESSION)
@click.argument("checkpoint", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the checkpoints; so does giving none.")
@click.option("--last-turn", is_flag=True, help="Undo the newest turn that changed files.")
@click.option("--dry-run", is_flag=True, help="Show what would be restored, and change nothing.")
@click.option("--force", is_flag=True, help="Restore files even if they have been changed since by someone else.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option
@report_errors
def restore(
    session: str,
    checkpoint: str | None,
    is_list: bool,
    last_turn: bool,
    dry_run: bool,
    force: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Restore the files that SESSION has changed at CHECKPOINT and after it.

    \b
    Examples:
      amplifier session restore 3f2a --list
      amplifier session restore 3f2a c4
      amplifier session restore 3f2a --last-turn --yes

    A restore is a checkpoint too, so that it can be undone. Files that were
    changed since by someone else are not touched, except with --force.
    """
    if sum((checkpoint is not None, is_list, last_turn)) > 1:
        raise click.UsageError("CHECKPOINT, --list and --last-turn: give one of them")

    app = current_app()
    _, found = found_session(app, session)
    checkpoints = Checkpoints(found.folder)
    if checkpoint is None and not last_turn:
        _print_list(app, found.id, checkpoints.list(), as_json)
        app.warn(checkpoints.problems)
        return
    if last_turn:
        first = checkpoints.last_turn()
        if first is None:
            _say_nothing(app, found.id, as_json)
            return
        checkpoint = first.id
    assert checkpoint is not None
    _restore(app, found.folder, checkpoints, checkpoint, dry_run, force, is_sure, as_json)


def _restore(
    app: App, folder: Path, checkpoints: Checkpoints, to: str, dry_run: bool, force: bool, is_sure: bool, as_json: bool
) -> None:
    plan = checkpoints.plan(to)
    app.warn(checkpoints.problems)
    if dry_run:
        _print_plan(app, plan, as_json)
        return
    reasons = (*plan.conflicts, *plan.impossible)
    if reasons and not force:
        raise RestoreConflictError(reasons)
    if plan.changes and not is_sure and app.can_ask:
        for state in plan.changes:
            app.inform(f"  {_action(state)} {state.path}")
    if plan.changes:
        what = counted(len(plan.changes), "file")
        app.confirm(f"Change {what}?", is_sure, f"give --yes to change {what}, or look with --dry-run")
    restored = checkpoints.restore(to, force=force)
    try:
        append_event(folder, SESSION_RESTORE, restored.to_event())
    except SessionLogBusy:
        app.inform("note: the session is running, so its log does not have this: its checkpoints do")
    _report(app, restored, as_json)


def _print_list(app: App, session_id: str, known: list[Checkpoint], as_json: bool) -> None:
    if as_json:
        print_json({"id": session_id, "checkpoints": [_record(one) for one in known]})
        return
    if not known:
        app.inform(f"session {session_id} has written no files that could be put back")
        return

    rows = [[one.id, when(one.made), one.turn, one.tool, _state(one), _path(one)] for one in known]
    print_table(["CHECKPOINT", "TIME", "TURN", "TOOL", "STATE", "FILE"], rows)


def _print_plan(app: App, plan: RestorePlan, as_json: bool) -> None:
    if as_json:
        changes = [{"path": str(state.path), "action": _action(state)} for state in plan.changes]
        conflicts, impossible = list(plan.conflicts), list(plan.impossible)
        print_json({"to": plan.to.id, "changes": changes, "conflicts": conflicts, "impossible": impossible})
        return

    for state in plan.changes:
        click.echo(plain(f"{_action(state)} {state.path}"))
    for line in (*plan.conflicts, *plan.impossible):
        app.inform(f"refused: {line}")
    if not plan.changes:
        app.inform("no file would change")


def _report(app: App, restored: Restored, as_json: bool) -> None:
    if as_json:
        print_json(restored.to_event())
        return

    for path in restored.put_back:
        click.echo(plain(f"put back {path}"))
    for path in restored.removed:
        click.echo(plain(f"removed {path}"))
    app.warn(restored.left)
    if restored.put_back or restored.removed:
        app.inform(f"to undo this, restore to {restored.checkpoint.id}")
    else:
        app.inform("no file had to be changed")


def _say_nothing(app: App, session_id: str, as_json: bool) -> None:
    if as_json:
        print_json({"checkpoint": None, "restored_to": None, "put_back": [], "removed": [], "left": []})
    else:
        app.inform(f"session {session_id} has changed no files that are not restored already")


def _action(state: FileState) -> str:
    return "remove" if state.kind == "absent" else "put back"


def _state(checkpoint: Checkpoint) -> str:
    if checkpoint.restored_to is not None:
        return f"restored to {checkpoint.restored_to}"
    if checkpoint.is_undone:
        return "undone"
    before = checkpoint.before[0] if checkpoint.before else None
    if before is not None and not before.is_kept:
        return "not kept"
    return "created" if before is not None and before.kind == "absent" else "changed"


def _path(checkpoint: Checkpoint) -> str:
    files = len(checkpoint.before)
    if checkpoint.restored_to is not None and files != 1:
        return f"{files} files"
    return str(checkpoint.path or "-")


def _record(checkpoint: Checkpoint) -> dict[str, Any]:
    after = {state.path: state for state in checkpoint.after or ()}
    return {
        "id": checkpoint.id,
        "made": checkpoint.made.isoformat(),
        "turn": checkpoint.turn,
        "tool": checkpoint.tool,
        "tool_call_id": checkpoint.tool_call_id,
        "restored_to": checkpoint.restored_to,
        "is_undone": checkpoint.is_undone,
        "files": [
            {
                "path": str(state.path),
                "is_kept": state.is_kept,
                "before": state.to_record(),
                "after": after[state.path].to_record() if state.path in after else None,
            }
            for state in checkpoint.before
        ],
    }
