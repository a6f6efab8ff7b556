"""`amplifier session list`: which sessions there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.records import format_option

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_foundation.sessions.metadata import SessionSummary


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most this many; 0 for all."
)
@click.option("--all-projects", is_flag=True, help="Those of all projects.")
@click.option("--project", "project", metavar="PATH", help="Those of the project in this folder.")
@click.option(
    "-t",
    "--tree",
    "tree",
    is_flag=False,
    flag_value="",
    metavar="[ID]",
    help="With the sessions they started and their forks below them; of one session alone when its ID is given.",
)
@format_option
@report_errors
def list_sessions(limit: int, all_projects: bool, project: str | None, tree: str | None, output_format: str) -> None:
    """List the sessions of this project, the most recently active first.

    \b
    Examples:
      amplifier session list
      amplifier session list --all-projects -n 50
      amplifier session list --tree 3f2a
      amplifier session list --format json | jq -r '.sessions[].id'
    """
    if project is not None and (all_projects or tree):
        raise click.UsageError(f"--project and {'--all-projects' if all_projects else '--tree ID'}: give one of them")
    from amplifier_foundation.paths import expanded
    from amplifier_foundation.sessions.store import SessionStore

    app = current_app()
    store = SessionStore(app.home)
    where = app.project if project is None else expanded(project).resolve()
    found = store.list(where, all_projects=all_projects, tree_of=tree or None, include_children=tree is not None)
    warnings = store.warnings
    if tree is None:
        shown = found[: limit or None]
        _print_rows(shown, found, all_projects, output_format)
    else:
        from amplifier_app_cli.commands.session.tree_view import print_tree, roots_of

        found_roots = roots_of(found)
        shown = found_roots[: limit or None]
        print_tree(shown, found, output_format)
        found = found_roots
    app.warn(warnings)
    _say_what_is_missing(app, len(shown), len(found), all_projects or tree == "", where)


def _print_rows(shown: list[SessionSummary], found: list[SessionSummary], with_project: bool, form: str) -> None:
    from amplifier_app_cli.commands.session.facts import (
        cost_text,
        model_text,
        record_of,
        short_ids,
        title,
        when,
        when_short,
    )
    from amplifier_foundation.sessions.metadata import load_metadata

    facts = {session.folder: load_metadata(session.folder).data for session in shown}
    if form == "json":
        from amplifier_app_cli.ui.records import print_json

        records = [record_of(session, facts[session.folder]) for session in shown]
        print_json({"sessions": records, "total": len(found)})
        return
    if not shown:
        return
    from amplifier_app_cli.ui.table import table, terminal_width

    width = terminal_width()
    ids = short_ids(found) if width is not None else {}
    headings = ["ID", "LAST ACTIVE", "TURNS", "COST", "BUNDLE", "MODEL", "NAME OR FIRST PROMPT"]
    rows: list[list[Any]] = [
        [
            ids.get(session.id, session.id),
            when(session.updated) if width is None else when_short(session.updated),
            session.turn_count,
            cost_text(facts[session.folder]),
            session.bundle or "-",
            model_text(session, facts[session.folder], is_short=width is not None) or "-",
            title(session),
            *([session.project or "-"] if with_project else []),
        ]
        for session in shown
    ]
    click.echo(table([*headings, *(["PROJECT"] if with_project else [])], rows, width, whole=("ID",)))


def _say_what_is_missing(app: App, shown: int, total: int, is_all: bool, project: Path) -> None:
    if not total:
        where = "there are no sessions" if is_all else f"there are no sessions of {project}"
        more = "" if is_all else ", or see those of other projects with --all-projects"
        app.inform(f'{where}: start one with `amplifier run "…"`{more}')
    elif shown < total:
        app.inform(f"{shown} of {total} sessions; -n 0 shows all")
