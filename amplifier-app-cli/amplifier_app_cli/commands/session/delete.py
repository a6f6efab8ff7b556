"""`amplifier session remove`: delete one session, or those that have been inactive for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.commands.session.facts import found_session, title, when
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import Integer, Number, yes_option
from amplifier_app_cli.ui.layout import counted, size_text, table, terminal_width
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.sessions.cleanup import Cleanup, clean_up
from amplifier_foundation.sessions.store import SessionStore

Function = TypeVar("Function", bound=Callable[..., Any])


def _cleanup_options(command: Function) -> Function:
    """Add the options of a cleanup, other than the number of days."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing."),
        click.option(
            "--keep-rotated",
            type=Integer(0),
            metavar="N",
            help="Of the logs of sessions that stay, keep the N newest rotated files (256 MB each).",
        ),
        click.option("--include-named", is_flag=True, help="Also those with a name, and damaged ones."),
        click.option("--project", "project", metavar="PATH", help="Those of the project in this folder."),
        click.option("--all-projects", is_flag=True, help="Those of all projects."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("session", required=False, type=SESSION)
@click.option(
    "--inactive",
    "days",
    type=Number(0, 36_500),
    metavar="DAYS",
    help="Delete all sessions that have been inactive for this many days.",
)
@_cleanup_options
@yes_option()
@json_option
@report_errors
def remove(session: str | None, days: float | None, is_sure: bool, as_json: bool, **wishes: Any) -> None:
    """Delete SESSION and the sessions that it started, or all that have been inactive for long. Forks stay.

    \b
    Examples:
      amplifier session remove 3f2a
      amplifier session remove --inactive 30 --dry-run
      amplifier session remove --inactive 90 --all-projects --yes

    A session that runs is not deleted. --inactive also keeps sessions with a name, and damaged ones.
    """
    if (session is None) is (days is None):
        raise click.UsageError("name a session, or give --inactive DAYS")
    if session is not None:
        if any(wishes.values()):
            raise click.UsageError("the other options need --inactive DAYS")
        _delete(session, is_sure, as_json)
    elif days is not None:
        _clean_up(days, is_sure=is_sure, as_json=as_json, **wishes)


@click.command()
@click.option("-d", "--days", type=Number(0, 36_500), default=30, help="See `session remove --inactive`.")
@_cleanup_options
@yes_option()
@json_option
@report_errors
def cleanup(days: float, is_sure: bool, as_json: bool, **wishes: Any) -> None:
    """Delete the sessions of this project that have been inactive for long: `amplifier session remove --inactive`.

    \b
    Examples:
      amplifier session remove --inactive 30 --dry-run
    """
    _clean_up(days, is_sure=is_sure, as_json=as_json, **wishes)


def _delete(session: str, is_sure: bool, as_json: bool) -> None:
    app = current_app()
    store, found = found_session(app, session)
    started = len(store.descendants(found))
    more = f" and {counted(started, 'session')} that it started" if started else ""
    app.confirm(
        f"Delete session {found.id}{more}: {title(found)}? It cannot be undone",
        is_sure,
        f"give --yes to delete session {found.id}{more}",
    )
    removed = store.delete(found)
    app.warn(removed.warnings)
    if as_json:
        print_json({"deleted": list(removed.ids), "bytes": removed.bytes})
    else:
        app.inform(f"deleted session {found.id}{more} ({size_text(removed.bytes)})")


def _clean_up(
    days: float,
    *,
    all_projects: bool,
    project: str | None,
    include_named: bool,
    keep_rotated: int | None,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    if project is not None and all_projects:
        raise click.UsageError("--project and --all-projects: give one of them")

    app = current_app()
    where = app.project_at(project)

    def clean(*, dry_run: bool) -> Cleanup:
        store = SessionStore(app.home)
        return clean_up(
            store,
            days=days,
            project=where,
            all_projects=all_projects,
            include_named=include_named,
            keep_rotated=keep_rotated,
            dry_run=dry_run,
        )

    done = clean(dry_run=True)
    if not dry_run and (done.removed or done.swept or done.pruned):
        if not is_sure and app.can_ask:
            _print_rows(done, to_stderr=True)
        what = f"{counted(len(done.removed), 'session')}{_pruned_text(done)} ({size_text(done.bytes)})"
        app.confirm(
            f"Delete {what}? It cannot be undone",
            is_sure,
            f"give --yes to delete {what}, or look with --dry-run",
        )
        done = clean(dry_run=False)
    _report(app, done, days, dry_run, as_json)


def _report(app: App, done: Cleanup, days: float, dry_run: bool, as_json: bool) -> None:
    app.warn(done.warnings)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "removed": [
                    {
                        "id": one.session.id,
                        "ids": list(one.ids),
                        "folder": str(one.session.folder),
                        "updated": one.session.updated.isoformat(),
                        "bytes": one.bytes,
                    }
                    for one in done.removed
                ],
                "kept": [{"id": session.id, "reason": reason} for session, reason in done.kept],
                "swept": [str(path) for path in done.swept],
                "pruned": [str(path) for path in done.pruned],
                "bytes": done.bytes,
                "warnings": list(done.warnings),
            }
        )
        return
    _print_rows(done)
    for session, reason in done.kept:
        app.inform(f"kept {session.id}: {reason}")
    if not done.removed and not done.swept and not done.pruned:
        app.inform(f"nothing to delete: no session was left alone for {days:g} days, or all such are kept")
        return
    swept = f" and {counted(len(done.swept), 'leftover')} of crashes" if done.swept else ""
    verb = "would delete" if dry_run else "deleted"
    app.inform(f"{verb} {counted(len(done.removed), 'session')}{_pruned_text(done)}{swept} ({size_text(done.bytes)})")


def _pruned_text(done: Cleanup) -> str:
    return f", {counted(len(done.pruned), 'rotated log file')}" if done.pruned else ""


def _print_rows(done: Cleanup, *, to_stderr: bool = False) -> None:
    """Print what was deleted, or would be."""
    if done.removed:
        rows = [
            [one.session.id, when(one.session.updated), len(one.ids), size_text(one.bytes), title(one.session)]
            for one in done.removed
        ]
        headings = ["ID", "LAST ACTIVE", "SESSIONS", "SIZE", "NAME OR FIRST PROMPT"]
        click.echo(table(headings, rows, terminal_width()), err=to_stderr)
