"""Slash commands: what they are called, what they are for, and where their code is.

A chapter is imported when one of its commands is used. Its functions take `(chat, words)`: the chat, and what was typed
after the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

Run = Callable[["Conversation", str], Awaitable[None]]


class Command(NamedTuple):
    """One command: `file:function` in this package, how it is typed, and what it does."""

    target: str
    usage: str
    summary: str
    #: Whether it may be used during a turn: it only looks.
    is_quick: bool = False


TABLE: Final = {
    "help": Command("info:help_", "/help", "List the commands.", True),
    "status": Command("info:status", "/status", "Show what this session is and what it used.", True),
    "cost": Command("info:cost", "/cost", "Show what the session used and cost.", True),
    "usage": Command("info:usage", "/usage", "Show what was used, by agent, and the limits.", True),
    "output": Command("info:output", "/output [NUMBER]", "Show a tool's output in full; 1 is the last one.", True),
    "context": Command("info:context", "/context", "Show how full the model's context is.", True),
    "compact": Command("session:compact", "/compact", "Shorten the conversation for the model."),
    "clear": Command("session:clear", "/clear", "Forget the conversation; the log keeps it."),
    "undo": Command("session:undo", "/undo [force]", "Undo the last turn, and what its tools wrote."),
    "save": Command("session:save", "/save [FILE]", "Write the conversation to a file."),
    "resume": Command("session:resume", "/resume [SESSION]", "Leave this session for another one."),
    "rename": Command("session:rename", "/rename NAME", "Name the session."),
    "fork": Command("session:fork", "/fork [TURN [NAME]]", "Copy the session, up to a turn, into one of its own."),
    "tools": Command("info:tools_", "/tools", "List the tools.", True),
    "mcp": Command("mcp:mcp", "/mcp [SERVER]", "Show the MCP servers, and the tools of one.", True),
    "permissions": Command("permissions:permissions", "/permissions [MODE]", "Choose what needs no question.", True),
    "agents": Command("info:agents_", "/agents", "List the agents.", True),
    "modes": Command("modes:show", "/modes", "List the modes.", True),
    "mode": Command("modes:mode", "/mode [NAME [on|off|PROMPT]|off|info NAME]", "Show, activate or leave a mode."),
    "skills": Command("skills:show", "/skills", "List the skills.", True),
    "skill": Command("skills:use", "/skill NAME [PROMPT]", "Give the model a skill with your next prompt."),
    "provider": Command("model:provider", "/provider [use NAME|auto|test|models]", "Show, pin or test the providers."),
    "model": Command("model:model", "/model [NAME]", "Choose the model, now and when resumed."),
    "goal": Command(
        "session:goal", "/goal [[--max-turns N] CONDITION|clear]", "Work over several turns until something is true."
    ),
    "config": Command(
        "settings:config",
        "/config [show|CATEGORY [NAME]|CATEGORY enable|disable NAME|set KEY VALUE|diff]",
        "Show and change what the session is made of.",
    ),
    "allowed-dirs": Command(
        "settings:allowed", "/allowed-dirs [add|remove PATH]", "Manage where files may be written."
    ),
    "denied-dirs": Command(
        "settings:denied", "/denied-dirs [add|remove PATH]", "Manage where files must not be written."
    ),
}


class Commands:
    """Run the commands of one chat."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._running: set[asyncio.Task[None]] = set()

    @staticmethod
    def listed() -> dict[str, str]:
        """Return the names with their summaries, for completion."""
        return {**{name: command.summary for name, command in TABLE.items()}, "exit": "Leave."}

    async def run(self, text: str) -> None:
        """Run what was typed; errors are shown, and the chat continues."""
        name, _, words = text[1:].partition(" ")
        try:
            run = self._found(name)
            if run is not None:
                await run(self._chat, words.strip())
        except Exception as error:  # a command must not end a chat
            self._chat.screen.show(self._chat.ink("bad", plain(f"/{name}: {_described(error)}")))
        if self._chat.screen.has_live_part:
            self._chat.screen.show("")  # separates what follows

    def run_during_turn(self, text: str) -> None:
        """Run a command that only looks; refuse all others."""
        name = text[1:].partition(" ")[0]
        if not TABLE[name].is_quick if name in TABLE else self._is_mode(name):
            self._chat.screen.show(self._chat.ink("dim", f"/{name} waits for the turn to end: Ctrl-C stops it"))
            return
        task = asyncio.get_running_loop().create_task(self.run(text))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _is_mode(self, name: str) -> bool:
        from amplifier_app_cli.chat.commands import modes

        return modes.is_shortcut(self._chat, name)

    def _found(self, name: str) -> Run | None:
        """Return the command, or show a hint; a mode can be called by its shortcut, and a skill by its name."""
        command = TABLE.get(name)
        if command is not None:
            file, _, function = command.target.partition(":")
            run: Run = getattr(import_module(f"{__name__}.{file}"), function)
            return run
        from amplifier_app_cli.chat.commands import modes, skills

        if self._is_mode(name):
            return lambda chat, words: modes.use(chat, name, words)
        if not self._chat.is_working and skills.find(self._chat, name) is not None:
            return lambda chat, words: skills.use(chat, f"{name} {words}")
        known = [f"/{known}" for known in self.listed()]
        hint = did_you_mean(f"/{name}", known, otherwise="/help lists the commands")
        self._chat.screen.show(plain(f"there is no command /{name}: {hint}"))
        return None


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, FoundationError | OSError) else f"{type(error).__name__}: {error}"
