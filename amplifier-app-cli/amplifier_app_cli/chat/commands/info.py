"""Slash commands that only look: help, status, cost, context, tools and agents."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.chat.commands import TABLE
from amplifier_app_cli.chat.session_data import messages_of
from amplifier_app_cli.chat.start import trust_line
from amplifier_app_cli.ui.layout import counted, folded, table, wrap_text
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.spending import spending_lines, usage_line
from amplifier_foundation.sessions.metadata import read_summary
from amplifier_foundation.sessions.plan import planned_budget
from amplifier_foundation.sessions.turns import count_turns
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.usage import money

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


_STOP = "stop the turn after its step; again: at once; at an empty prompt, twice: leave"
_SHELL = ("!command", "run a shell command; you are asked as usual, and the model sees its output")
_KEYS = (
    ("Enter", "send"),
    ("Ctrl-J", "new line"),
    ("@path", "bring a file along"),
    _SHELL,
    ("Ctrl-O", "show the last output of a tool in full; again: the one before"),
    ("Shift-Tab", "change the permission mode: what needs no question"),
    ("Ctrl-R", "search what was typed before"),
    ("Esc", "stop the turn at once, with the command that runs"),
    ("Ctrl-C", _STOP),
    ("Ctrl-D", "leave, as exit and quit do"),
)
#: The same for a terminal that reads lines and no single keys.
_LINE_KEYS = (
    ("Enter", "send; a line that ends in \\ continues on the next"),
    ("@path", "bring a file along"),
    _SHELL,
    ("Ctrl-C", _STOP),
    ("Ctrl-D", "leave, as exit and quit do"),
)
#: Columns of the names, where there is room for two columns, and how wide the second one has to be.
_NAMES = 24
_LEAST = 40


async def help_(chat: Conversation, words: str) -> None:
    """List commands and keys; what is typed during a turn goes to the model."""
    width = chat.width - 1
    lines: list[str] = []
    for command in TABLE.values():
        lines += _explained(command.usage, command.summary, width)
    lines.append("")
    for key, meaning in _KEYS if chat.screen.has_live_part else _LINE_KEYS:
        lines += wrap_text(f"{key}: {meaning}", width)
    lines += wrap_text("What you type while it works goes to the model before its next step.", width)
    chat.screen.show("\n".join(lines))


def _explained(usage: str, summary: str, width: int) -> list[str]:
    """Return a command with what it does: beside it where both have room, else below it."""
    indent = _NAMES if width >= _NAMES + _LEAST else 4
    below = [f"{' ' * indent}{line}" for line in wrap_text(summary, max(width - indent, 10))]
    if indent == _NAMES and len(usage) < _NAMES:
        return [usage.ljust(_NAMES) + below[0].lstrip(), *below[1:]]
    return [*wrap_text(usage, width), *below]


async def status(chat: Conversation, words: str) -> None:
    """Show what this session is, what it is made of, and what it used."""
    runtime, coordinator = chat.runtime, chat.coordinator
    composed = runtime.prepared.composed
    messages, summary = await messages_of(chat), read_summary(runtime.folder)
    pinned = coordinator.session_state.get("pinned_provider")
    goal = coordinator.session_state.get("goal")
    facts = {
        "session": runtime.session_id,
        "name": summary.name if summary is not None else None,
        "bundle": f"{composed.name} {composed.version}".strip(),
        "providers": ", ".join(coordinator.get("providers")) + (f" (pinned: {pinned})" if pinned else ""),
        "tools": ", ".join(coordinator.get("tools")) or "none",
        "project": runtime.prepared.project,
        "trust": trust_line(runtime.prepared.home, runtime.prepared.project, is_trusted_now=chat.is_trusted_now),
        "conversation": f"{counted(count_turns(messages), 'turn')}, {counted(len(messages), 'message')}",
        "used": usage_line(chat.usage.session),
        "goal": goal.get("condition") if isinstance(goal, dict) else None,
        "log": runtime.log_path,
    }
    text = "\n".join(plain(f"{name}: {value}") for name, value in facts.items() if value)
    chat.screen.show(folded(text, chat.width - 1))


async def cost(chat: Conversation, words: str) -> None:
    """Show what the last turn and the whole session used, and what providers and child sessions report."""
    last = chat.usage.turn
    chat.screen.show(f"last turn: {usage_line(last)}" if last.answers else "no turn yet")
    chat.screen.show(f"session: {usage_line(chat.usage.session)}")
    contributed = await chat.coordinator.collect_contributions("session.cost")
    parts = [str(part["cost_usd"]) for part in contributed if isinstance(part, dict) and part.get("cost_usd")]
    if parts:
        chat.screen.show(f"as reported by providers and sub-agents: {money(sum(map(Decimal, parts), Decimal(0)))}")
    rows = chat.runtime.account.rows()
    if len(rows) > 1:
        for line in spending_lines(rows):
            chat.screen.show(line)


async def usage(chat: Conversation, words: str) -> None:
    """Show what the session used in this run, children included, by agent and source, with models and limits."""
    account = chat.runtime.account
    total = account.total
    lines = [f"last turn: {usage_line(chat.usage.turn)}"] if chat.usage.turn.answers else []
    session = chat.usage.session
    lines.append(f"session: {usage_line(session)}" if session.answers else "nothing was used yet")
    if total.calls:
        lines.append(f"{counted(total.calls, 'model call')} of {', '.join(sorted(total.models)) or 'unknown models'}")
    lines += spending_lines(account.rows())
    limits = {**planned_budget(chat.runtime.session.config), **chat.session.request.budget}
    used = chat.runtime.budget.used()
    lines += [f"limit: {used.get(name, 0):,} of {value} {name}" for name, value in limits.items()]
    chat.screen.show(folded(plain("\n".join(lines)), chat.width - 1))


async def output(chat: Conversation, words: str) -> None:
    """Show the output of a tool in full; 1 is the last one, 2 the one before."""
    if words and not words.isdecimal():
        chat.screen.show("/output [NUMBER]: 1 is the last output, 2 the one before")
    else:
        chat.show_output(int(words) if words else 1)


async def context(chat: Conversation, words: str) -> None:
    """Show how many messages there are, and how much of the model's context the last request took."""
    lines = [counted(len(await messages_of(chat)), "message")]
    kept = await _asked(chat, "context.request_retention")
    if kept:
        lines.append(
            f"last request: {counted(kept['request_messages'], 'message')}, about {kept['request_tokens']:,} of "
            f"{kept['budget']:,} tokens ({kept['request_tokens'] / max(kept['budget'], 1):.0%})"
        )
        if kept.get("strategy_level"):
            lines.append(f"shortened: {kept['messages_removed']} removed, {kept['messages_truncated']} truncated")
    used = await _asked(chat, "context.foreground_usage")
    if used:
        lines.append(f"measured: {used['measured_tokens']:,} tokens")
    assemble = chat.coordinator.get_capability("context.instruction_assembly")
    if callable(assemble):
        lines.append(f"instructions: {len(await maybe_await(assemble())):,} characters")
    chat.screen.show(folded("\n".join(lines), chat.width - 1))


async def _asked(chat: Conversation, capability: str) -> dict[str, Any] | None:
    ask = chat.coordinator.get_capability(capability)
    answer = await maybe_await(ask()) if callable(ask) else None
    return answer if isinstance(answer, dict) else None


async def tools_(chat: Conversation, words: str) -> None:
    """List the tools with what they need permission for."""
    tools = chat.coordinator.get("tools")
    if not tools:
        chat.screen.show("the bundle has no tools")
        return
    rows = [
        (name, getattr(tool, "action", None) or f"tool.{name}", getattr(tool, "description", ""))
        for name, tool in sorted(tools.items())
    ]
    chat.screen.show(table(("TOOL", "ACTION", "DESCRIPTION"), rows, chat.width - 1))


async def agents_(chat: Conversation, words: str) -> None:
    """List the agents that work can be delegated to."""
    agents = chat.runtime.session.config.get("agents")
    rows = [(name, _description(agent)) for name, agent in sorted(agents.items())] if isinstance(agents, dict) else []
    if not rows:
        chat.screen.show("the bundle has no agents")
        return
    chat.screen.show(table(("AGENT", "DESCRIPTION"), rows, chat.width - 1, whole={"AGENT"}))


def _description(agent: Any) -> str:
    if not isinstance(agent, dict):
        return ""
    meta = agent.get("meta")
    return str(agent.get("description") or (meta.get("description") if isinstance(meta, dict) else "") or "")
