"""`amplifier session list`: the sessions, as a list or as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import Integer
from amplifier_app_cli.ui.records import json_option
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_app_cli.app import App
    from amplifier_app_cli.children.endings import EndingReader
    from amplifier_app_cli.commands.session.facts import Family
    from amplifier_foundation.sessions.metadata import SessionSummary

    #: The folder of a project's sessions, which all of them share, and the id: quicker than a path for each.
    _Key = tuple[Path, str]


@click.command("list")
@click.option("-n", "--limit", type=Integer(min=0), default=20, show_default=True, help="At most this many; 0 for all.")
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
@json_option
@report_errors
def list_sessions(limit: int, all_projects: bool, project: str | None, tree: str | None, as_json: bool) -> None:
    """List the sessions of this project, the most recently active first.

    \b
    Examples:
      amplifier session list
      amplifier session list --all-projects -n 50
      amplifier session list --tree 3f2a
      amplifier session list --json | jq -r '.sessions[].id'
    """
    if project is not None and (all_projects or tree):
        raise click.UsageError(f"--project and {'--all-projects' if all_projects else '--tree ID'}: give one of them")
    from amplifier_app_cli.commands.session.facts import Family
    from amplifier_foundation.sessions.store import SessionStore

    app = current_app()
    store = SessionStore(app.home)
    where = app.project_at(project)
    everyone = store.list(where, all_projects=all_projects, tree_of=tree or None, include_children=True)
    found = everyone if tree is not None else [session for session in everyone if not session.is_child]
    warnings = store.warnings
    if tree is None:
        shown = found[: limit or None]
        _print_rows(shown, found, Family(everyone), all_projects, as_json)
    else:
        found_roots = roots_of(found)
        shown = found_roots[: limit or None]
        print_tree(shown, found, as_json)
        found = found_roots
    app.warn(warnings)
    _say_what_is_missing(app, len(shown), len(found), all_projects or tree == "", where)


def _print_rows(
    shown: list[SessionSummary], found: list[SessionSummary], family: Family, with_project: bool, as_json: bool
) -> None:
    from amplifier_app_cli.commands.session.facts import (
        cost_text,
        model_text,
        record_of,
        short_ids,
        title,
        when,
        when_short,
    )

    facts = {session.folder: family.metadata(session) for session in shown}
    if as_json:
        from amplifier_app_cli.ui.records import print_json

        records = [record_of(session, facts[session.folder]) for session in shown]
        print_json({"sessions": records, "total": len(found)})
        return
    if not shown:
        return
    from amplifier_app_cli.ui.layout import table, terminal_width

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
            model_text(session, facts[session.folder]) or "-",
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


#: The title keeps at least this many columns; what follows is cut first.
_LEAST_SAID = 16
#: At most this many columns of an agent's name are shown in a terminal, before how it ended.
_MOST_NAMED = 24


def roots_of(sessions: Sequence[SessionSummary]) -> list[SessionSummary]:
    """Return those sessions that come from none of the others, in their order.

    Of sessions that are each other's parents, because of damaged metadata, only the first is shown.
    """
    below, known = _below(sessions), {_key(session) for session in sessions}
    roots = [session for session in sessions if _parent(session) not in known]
    reached = {_key(session) for root in roots for _, session in _walk(root, below)}
    for session in sessions:
        if _key(session) not in reached:
            roots.append(session)
            reached |= {_key(one) for _, one in _walk(session, below)}
    return roots


def print_tree(roots: Sequence[SessionSummary], sessions: Sequence[SessionSummary], as_json: bool) -> None:
    """Print trees of sessions, one for each root."""
    from amplifier_app_cli.children.endings import EndingReader
    from amplifier_app_cli.commands.session.facts import Family

    below, words, family = _below(sessions), EndingReader(), Family(sessions)
    if as_json:
        from amplifier_app_cli.ui.records import print_json

        all_roots = roots_of(sessions)
        print_json(
            {"sessions": [_tree_record(root, below, set(), words, family) for root in roots], "total": len(all_roots)}
        )
        return
    from amplifier_app_cli.commands.session.facts import short_ids
    from amplifier_app_cli.ui.layout import terminal_width

    width = terminal_width()
    ids = short_ids(sessions) if width is not None else {}
    for root in roots:
        for branch, session in _walk(root, below):
            if width is None:
                about = _described(session, session.id, words, family, is_short=False)
                click.echo(branch + " ".join(part for part in (about.before, about.said, about.after[0]) if part))
            else:
                click.echo(_fitted(branch, _described(session, ids[session.id], words, family, is_short=True), width))


class _Description(NamedTuple):
    """The line about a session: what comes before its title, the title, and what follows, long or short."""

    before: str
    said: str
    after: tuple[str, ...] = ("",)


def _fitted(branch: str, about: _Description, width: int) -> str:
    """Return a line that fits: the title is cut first, down to its minimum, then what follows it."""
    from amplifier_app_cli.ui.layout import columns, shortened

    def room(after: str) -> int:
        return width - columns(branch) - columns(about.before) - columns(after) - 2

    least = min(_LEAST_SAID, columns(about.said))
    after = next((one for one in about.after if room(one) >= least), "")
    said = shortened(about.said, max(room(after), 0))
    return shortened(branch + " ".join(part for part in (about.before, said, after) if part), width)


def _below(sessions: Sequence[SessionSummary]) -> dict[_Key, list[SessionSummary]]:
    below: dict[_Key, list[SessionSummary]] = {}
    for session in sorted(sessions, key=lambda one: (one.created or one.updated, one.id)):
        if (parent := _parent(session)) is not None:
            below.setdefault(parent, []).append(session)
    return below


def _key(session: SessionSummary) -> _Key:
    return session.place, session.id


def _parent(session: SessionSummary) -> _Key | None:
    return (session.place, session.parent_id) if session.parent_id else None


def _walk(root: SessionSummary, below: dict[_Key, list[SessionSummary]]) -> Iterator[tuple[str, SessionSummary]]:
    """Yield a session and its descendants, each with its branches."""
    seen = {_key(root)}
    todo: list[tuple[str, str, SessionSummary]] = [("", "", root)]
    while todo:
        branch, stem, session = todo.pop()
        yield branch, session
        further = [one for one in below.get(_key(session), ()) if _key(one) not in seen]
        seen |= {_key(one) for one in further}
        for number, one in enumerate(reversed(further)):
            is_last = number == 0
            todo.append((f"{stem}{'└─ ' if is_last else '├─ '}", f"{stem}{'   ' if is_last else '│  '}", one))


def _ending(session: SessionSummary, words: EndingReader) -> str | None:
    """Return how a session ended, or that it runs; None when it has no log that would say so."""
    parent = session.place / session.parent_id if session.is_child and session.parent_id else None
    ending = words.ending(session.folder, parent)
    return ending.word if ending is not None else None


def _described(
    session: SessionSummary, shown: str, words: EndingReader, family: Family, *, is_short: bool
) -> _Description:
    """Return the line about a session; `shown` is printed as its id.

    Of a child the agent and its task come first; for a person its id is last, since it says the least.
    """
    from amplifier_app_cli.commands.session.facts import cost_text, is_fork, title, when, when_short
    from amplifier_app_cli.ui.layout import counted, shortened, single_line

    facts = family.metadata(session)
    moment = when_short(session.updated) if is_short else when(session.updated)
    numbers = f"{moment} {counted(session.turn_count, 'turn')} {cost_text(facts)}"
    # What a child inherits of its parent's conversation says nothing about the child.
    _, is_told, task = title(session).partition("[YOUR TASK]")
    said = single_line(f'"{task.strip()}' if is_told else title(session))
    if not session.is_child:
        kind = "[fork] " if is_fork(session) else ""
        return _Description(single_line(f"{shown} {kind}{numbers}"), said)
    agent, ending = single_line(session.agent_name or "agent"), _ending(session, words) or ""
    if is_short:
        after = (single_line(f"{numbers} {shown}"), single_line(numbers), cost_text(facts))
        return _Description(single_line(f"[{shortened(agent, _MOST_NAMED)}] {ending}"), said, after)
    return _Description(single_line(f"{shown} [{agent}] {ending}"), said, (numbers,))


def _tree_record(
    session: SessionSummary,
    below: dict[_Key, list[SessionSummary]],
    seen: set[_Key],
    words: EndingReader,
    family: Family,
) -> dict[str, Any]:
    from amplifier_app_cli.commands.session.facts import record_of

    seen.add(_key(session))
    further = [one for one in below.get(_key(session), ()) if _key(one) not in seen]
    record = {**record_of(session, family.metadata(session)), "end": _ending(session, words)}
    return {**record, "children": [_tree_record(one, below, seen, words, family) for one in further]}
