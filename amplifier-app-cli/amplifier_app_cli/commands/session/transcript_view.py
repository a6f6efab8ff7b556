"""Show the messages of a conversation to a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.say import say
from amplifier_foundation.sessions.turns import starts_turn

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
        for text, is_whole in _parts(message):
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


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a message, each with whether it is whole."""
    if thinking := message.get("thinking_text"):
        yield _cut(f"(thinking) {thinking}")
    content, calls = message.get("content"), message.get("tool_calls")
    if text := _text(content):
        yield _cut(text) if message.get("role") == "tool" else (text, True)
    blocks = content if isinstance(content, list) else ()
    for call in calls if isinstance(calls, list) else [block for block in blocks if _is_call(block)]:
        if isinstance(call, dict):
            arguments = json.dumps(call.get("arguments", call.get("input")), ensure_ascii=False)
            yield _cut(f"calls {call.get('tool') or call.get('name')}: {arguments}")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_block(block) for block in content if not _is_call(block))
    return "" if content is None else json.dumps(content, ensure_ascii=False)


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in ("tool_call", "tool_use")


def _block(block: object) -> str:
    if isinstance(block, dict):
        for key in ("text", "thinking"):
            if isinstance(block.get(key), str):
                return str(block[key])
    return json.dumps(block, ensure_ascii=False)


def _cut(text: str) -> tuple[str, bool]:
    lines = text.splitlines()
    kept = "\n".join(lines[:_LINES])[:_LONGEST]
    if len(lines) <= _LINES and len(text) <= _LONGEST:
        return text, True
    return f"{kept}…", False
