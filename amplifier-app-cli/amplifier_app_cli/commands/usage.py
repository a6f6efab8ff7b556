"""`amplifier usage`: tokens and cost of sessions, by day, project, model, agent or session."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, cast

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import cost_text
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import table, terminal_width
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.spending import usage_record
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.sessions.usage_report import GROUPS, Group, UsageReport
from amplifier_kit.engine.usage import UsageRecord

_BACK = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}
#: Groups whose rows are listed by name, not the most expensive first.
_IN_ORDER = ("day",)


def _moment(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Return the time that an option names; raises BadParameter."""
    if text is None:
        return None
    now = datetime.now().astimezone()
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    if back := _BACK.fullmatch(text):
        return now - timedelta(hours=int(back[1]) * _HOURS[back[2]])
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time: use a date (2026-11-01), today, or how far back (24h, 7d, 4w)"
        ) from None


@click.command()
@click.option(
    "--by",
    "by",
    multiple=True,
    type=click.Choice(GROUPS),
    help="What each row is about, `day` by default (may be repeated).",
)
@click.option("--since", callback=_moment, metavar="TIME", help="Count from then: a date, today, 24h, 7d or 4w.")
@click.option("--project", metavar="PATH", help="Only sessions of the project in this folder; `.` is this one.")
@json_option
@report_errors
def usage(by: tuple[str, ...], since: datetime | None, project: str | None, as_json: bool) -> None:
    """Show tokens and cost of all sessions, child sessions included.

    A + marks a cost that leaves out answers without a known price, a dash one that is unknown. With `--by session`
    children are added to the session that started them; with `--by agent` they have a row by their agent.

    \b
    Examples:
      amplifier usage
      amplifier usage --by model --since 7d
      amplifier usage --by project --by agent
      amplifier usage --by session --project .
      amplifier usage --json | jq .total
    """
    app = current_app()
    groups = tuple(cast(Group, group) for group in dict.fromkeys(by or ("day",)))
    store = SessionStore(app.home)
    where = app.project_at(project)
    sessions = store.list(where, all_projects=project is None, include_children=True)
    report = UsageReport.of(sessions, groups, since)
    app.warn([*store.warnings, *report.unreadable], "note")
    keys = sorted(report.rows)
    if groups[0] not in _IN_ORDER:
        keys.sort(key=lambda key: (-report.rows[key].known_cost, -(report.rows[key].output_tokens or 0)))
    if as_json:
        rows = [{**dict(zip(groups, key, strict=True)), **_record(report, key)} for key in keys]
        total = {"sessions": report.total_sessions, **_sums(report.total)}
        print_json({"since": since and since.isoformat(), "by": list(groups), "rows": rows, "total": total})
    elif not keys:
        app.inform("nothing was used in this time" if since is not None else "no session used a model yet")
    else:
        cells: list[tuple[object, ...]] = [(*key, *_cells(report.rows[key], report.sessions[key])) for key in keys]
        total_cells = ("total", *[""] * (len(groups) - 1), *_cells(report.total, report.total_sessions))
        headings = (*map(str.upper, groups), "SESSIONS", "INPUT", "OUTPUT", "CACHED", "COST")
        click.echo(table(headings, [*cells, total_cells], terminal_width()))


def _cells(used: UsageRecord, sessions: int) -> tuple[object, ...]:
    tokens = (used.input_tokens, used.output_tokens, used.cache_read_tokens)
    return sessions, *(f"{count or 0:,}" for count in tokens), cost_text({"usage": used.facts()})


def _record(report: UsageReport, key: tuple[str, ...]) -> dict[str, Any]:
    return {"sessions": report.sessions[key], **_sums(report.rows[key])}


def _sums(used: UsageRecord) -> dict[str, Any]:
    """Return a sum for programs; `cost_usd` is null when a part of it is unknown, `known_cost_usd` never."""
    return {**usage_record(used), "known_cost_usd": str(used.known_cost), "answers_without_price": used.unpriced}
