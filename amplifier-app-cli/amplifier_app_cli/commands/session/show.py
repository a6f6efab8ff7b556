"""`amplifier session show`: all that is known of one session, and its conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.session.facts import (
    Family,
    cost_text,
    found_session,
    is_fork,
    model_text,
    record_of,
    when,
)
from amplifier_app_cli.completion import SESSION
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.layout import counted, size_text
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_app_cli.ui.say import say
from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.sessions.checkpoints import CheckpointError, Checkpoints
from amplifier_foundation.sessions.cleanup import folder_bytes
from amplifier_foundation.sessions.log import is_running
from amplifier_foundation.sessions.metadata import SessionSummary, load_metadata, load_record
from amplifier_foundation.sessions.store import SessionStore
from amplifier_foundation.sessions.transcript import load_history, message_parts
from amplifier_foundation.sessions.turns import starts_turn
from amplifier_kit.engine.usage import UsageRecord


@dataclass
class _Known:
    """One session, with facts from its folder and from the sessions beside it."""

    session: SessionSummary
    metadata: dict[str, Any]
    state: str
    size: int
    made_of: dict[str, Any] | None
    children: list[SessionSummary]
    forks: list[SessionSummary]
    lineage: list[SessionSummary]
    checkpoints: int
    problems: list[str] = field(default_factory=list)


@click.command()
@click.argument("session", type=SESSION)
@click.option("-T", "--with-transcript", is_flag=True, help="With the conversation.")
@json_option
@report_errors
def show(session: str, with_transcript: bool, as_json: bool) -> None:
    """Show SESSION: when it was, what it used and cost, what it is made of, what it started, and its forks.

    \b
    Examples:
      amplifier session show 3f2a
      amplifier session show "login bug" --with-transcript
      amplifier session show 3f2a --json | jq .usage
    """
    app = current_app()
    store, found = found_session(app, session)
    known = _known(store, found)
    messages: list[dict[str, Any]] | None = None
    if with_transcript:
        history = load_history(found.folder)
        known.problems += history.problems
        messages = history.messages
    if as_json:
        print_json(_record(known) | ({"messages": messages} if messages is not None else {}))
    else:
        for line in _lines(known):
            click.echo(line)
        if messages is not None:
            print_messages(messages, found.id)
    app.warn(known.problems)


def _known(store: SessionStore, session: SessionSummary) -> _Known:
    tree = store.list(tree_of=session)
    metadata = Family(tree).metadata(session)
    problems = [text for text in (session.damaged, session.warning) if text]
    family = [one for one in tree if one.parent_id == session.id]
    family.sort(key=lambda one: (one.created or one.updated, one.id))
    problems += store.warnings
    made_of, problem = load_record(session.folder)
    problems += [problem] if problem else []
    try:
        checkpoints = sum(one.restored_to is None and not one.is_undone for one in Checkpoints(session.folder).list())
    except CheckpointError as error:
        checkpoints = 0
        problems.append(str(error))
    return _Known(
        session,
        metadata,
        "running" if is_running(session.folder) else "cut off" if metadata.get("incremental") else "idle",
        folder_bytes(session.folder),
        made_of,
        [one for one in family if one.is_child],
        [one for one in family if not one.is_child],
        store.lineage(session)[:-1],
        checkpoints,
        problems,
    )


# -- for programs --


def _record(known: _Known) -> dict[str, Any]:
    return {
        **record_of(known.session, known.metadata),
        "state": known.state,
        "bytes": known.size,
        "metadata": load_metadata(known.session.folder).data,
        "made_of": known.made_of,
        "children": [one.id for one in known.children],
        "forks": [one.id for one in known.forks],
        "lineage": [one.id for one in known.lineage],
        "checkpoints": known.checkpoints,
        "problems": known.problems,
    }


# -- for people --


def _lines(known: _Known) -> Iterator[str]:
    session = known.session
    facts = {
        "Session": session.id,
        "Name": session.name,
        "About": session.description,
        "First prompt": session.first_prompt,
        "Project": session.project,
        "Folder": f"{session.folder} ({size_text(known.size)})",
        "Started": session.created and when(session.created),
        "Last active": when(session.updated),
        "State": known.state,
        "Damaged": session.damaged,
        "Turns": str(session.turn_count),
        "Bundle": session.bundle,
        "Model": model_text(session, known.metadata),
        "Permissions": known.metadata.get("permission_mode"),
        "Used": _used(known.metadata),
        "Cost": _cost(known.metadata),
        "  Without children": _cost({"usage": known.metadata.get("own_usage")}),
        **_parts(known.made_of),
        **_relations(known),
    }
    width = max(len(label) for label, value in facts.items() if value) + 2
    for label, value in facts.items():
        if value:
            yield f"{label + ':':<{width}}{' '.join(plain(value).split())}"


def _used(metadata: dict[str, Any]) -> str | None:
    usage = UsageRecord.of_facts(metadata.get("usage")).tokens()
    names = {
        "input_tokens": "tokens in",
        "output_tokens": "tokens out",
        "cache_read_tokens": "read from cache",
        "cache_write_tokens": "written to cache",
    }
    parts = [f"{usage[key]:,} {name}" for key, name in names.items() if usage.get(key)]
    return ", ".join(parts) or None


def _cost(metadata: dict[str, Any]) -> str | None:
    usage = metadata.get("usage")
    if not isinstance(usage, dict):
        return None
    unpriced = UsageRecord.of_facts(usage).unpriced
    known = cost_text(metadata).rstrip("+")
    text = "not known" if known == "-" else known
    if unpriced:
        text += f" ({counted(unpriced, 'answer')} without a price)"
    return f"{text} (since {usage['since']})" if isinstance(usage.get("since"), str) else text


def _parts(made_of: dict[str, Any] | None) -> dict[str, str | None]:
    """Return what a session is made of, in words, by label."""
    if made_of is None:
        return {}
    found = made_of.get("plan")
    plan: dict[str, Any] = found if isinstance(found, dict) else {}
    session = plan.get("session")
    parts = session if isinstance(session, dict) else {}
    agents, pins = plan.get("agents"), made_of.get("pins")
    return {
        "Made of": f"{made_of.get('name')} {made_of.get('version')} ({made_of.get('uri')})",
        "  Loop": _module(parts.get("orchestrator")),
        "  Context": _module(parts.get("context")),
        **{f"  {section.capitalize()}": _modules(plan.get(section)) for section in MODULE_SECTIONS},
        "  Agents": ", ".join(map(str, agents)) if isinstance(agents, dict) else None,
        "  Fetched": ", ".join(map(str, pins)) if isinstance(pins, dict) else None,
    }


def _modules(entries: Any) -> str | None:
    return ", ".join(filter(None, map(_module, entries))) if isinstance(entries, list) else None


def _module(entry: Any) -> str | None:
    if isinstance(entry, dict):
        config = entry.get("config")
        model = config.get("default_model") if isinstance(config, dict) else None
        name = str(entry.get("id") or entry.get("module") or "")
        return f"{name} ({model})" if model else name
    return entry if isinstance(entry, str) else None


def _relations(known: _Known) -> dict[str, str | None]:
    session, facts = known.session, known.metadata
    relations: dict[str, str | None] = {}
    if session.parent_id:
        at = facts.get("forked_from_turn")
        label = "Fork of" if is_fork(session) else "Started by"
        relations[label] = f"{session.parent_id}{f', turn {at}' if at is not None else ''}"
    relations["Agent"] = session.agent_name
    relations |= {
        "Children": ", ".join(f"{one.id} ({one.agent_name or 'agent'})" for one in known.children),
        "Forks": ", ".join(f"{one.id}{f' ({one.name})' if one.name else ''}" for one in known.forks),
    }
    if known.checkpoints:
        relations["Written"] = (
            f"{counted(known.checkpoints, 'time')}; undo with: amplifier session restore {session.id}"
        )
    return relations


#: Lines of a tool's result, and of the arguments of a call, that are shown.
_LINES = 12
_LONGEST = 2000


def print_messages(messages: Sequence[Mapping[str, Any]], session_id: str) -> None:
    """Print a conversation; long results of tools are cut, and it is said where all of it is."""
    turn, was_cut = 0, False
    for message in messages:
        turn += _is_prompt(message)
        click.echo()
        click.echo(plain(f"--- {_heading(message, turn)}"))
        for text, is_whole in _message_parts(message):
            was_cut = was_cut or not is_whole
            click.echo(plain(text))
    if was_cut:
        say(f"long results were cut: `amplifier session export {session_id}` has all of it")


def _is_prompt(message: Mapping[str, Any]) -> bool:
    return starts_turn(message)


def _heading(message: Mapping[str, Any], turn: int) -> str:
    role = str(message.get("role"))
    who = f"{message.get('name') or 'tool'} answers" if role == "tool" else role
    metadata = message.get("metadata")
    at = metadata.get("timestamp") if isinstance(metadata, dict) else None
    return " ".join(part for part in (who, f"(turn {turn})" if _is_prompt(message) else "", str(at or "")) if part)


def _message_parts(message: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a message, each with whether it is whole."""
    parts = message_parts(message)
    for thought in parts.thoughts:
        yield _cut(f"(thinking) {thought}")
    if text := _text(parts.content):
        yield _cut(text) if message.get("role") == "tool" else (text, True)
    for name, given in parts.calls:
        yield _cut(f"calls {name}: {json.dumps(given, ensure_ascii=False)}")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_block(block) for block in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False)


def _block(block: object) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return json.dumps(block, ensure_ascii=False)


def _cut(text: str) -> tuple[str, bool]:
    lines = text.splitlines()
    kept = "\n".join(lines[:_LINES])[:_LONGEST]
    if len(lines) <= _LINES and len(text) <= _LONGEST:
        return text, True
    return f"{kept}…", False
