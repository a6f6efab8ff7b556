"""Slash commands: what they are called, what they are for, and where their code is.

A command's file is imported when it is used. Each has functions `(chat, words)`: the chat, and what was typed behind
the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

Run = Callable[["Conversation", str], Awaitable[None]]


class Command(NamedTuple):
    """One command: `file:function` in this package, how it is typed, and what it does."""

    target: str
    usage: str
    summary: str
    #: Whether it may be used while a turn runs: it only looks.
    is_quick: bool = False


NOT_YET: Final = "modes:absent"

TABLE: Final = {
    "help": Command("help:show", "/help", "List the commands.", True),
    "status": Command("status:show", "/status", "Say what this session is and what it has used.", True),
    "cost": Command("cost:show", "/cost", "Say what the session has used and cost.", True),
    "context": Command("context:show", "/context", "Say how full the model's memory is.", True),
    "compact": Command("context:compact", "/compact", "Make the conversation shorter for the model."),
    "clear": Command("clear:clear", "/clear", "Forget the conversation; the log keeps it."),
    "undo": Command("undo:undo", "/undo [force]", "Take the last turn back, and what its tools wrote."),
    "save": Command("save:save", "/save [FILE]", "Write the conversation to a file."),
    "rename": Command("rename:rename", "/rename NAME", "Give the session a name."),
    "fork": Command("fork:fork", "/fork [TURN [NAME]]", "Copy the session, up to a turn, into one of its own."),
    "tools": Command("tools:show", "/tools", "List the tools.", True),
    "agents": Command("agents:show", "/agents", "List the agents.", True),
    "skills": Command("skills:show", "/skills", "List the skills.", True),
    "skill": Command("skills:use", "/skill NAME [PROMPT]", "Give the model a skill with your next prompt."),
    "provider": Command(
        "provider:provider", "/provider [use NAME|auto|test|models]", "Show, pin or test the providers."
    ),
    "model": Command("model:model", "/model [NAME]", "Show the model, or set it, now and when resumed."),
    "goal": Command(
        "goal:goal", "/goal [[--max-turns N] CONDITION|clear]", "Work over several turns until something is true."
    ),
    "config": Command(
        "config:config",
        "/config [show|CATEGORY [NAME]|CATEGORY enable|disable NAME|set KEY VALUE|diff]",
        "Show and change what the session is made of.",
    ),
    "allowed-dirs": Command("folders:allowed", "/allowed-dirs [add|remove PATH]", "Say where files may be written."),
    "denied-dirs": Command("folders:denied", "/denied-dirs [add|remove PATH]", "Say where files must not be written."),
    "mode": Command(NOT_YET, "/mode", "Not in this release.", True),
    "modes": Command(NOT_YET, "/modes", "Not in this release.", True),
}


class Commands:
    """Run the commands of one chat."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._running: set[asyncio.Task[None]] = set()

    @staticmethod
    def listed() -> dict[str, str]:
        """Return the names with their summaries, for completion."""
        known = {name: command.summary for name, command in TABLE.items() if command.target != NOT_YET}
        return {**known, "exit": "Leave."}

    async def run(self, text: str) -> None:
        """Run what was typed; whatever goes wrong is told, and the chat goes on."""
        name, _, words = text[1:].partition(" ")
        try:
            run = self._found(name)
            if run is not None:
                await run(self._chat, words.strip())
        except Exception as error:  # a command must not end a chat
            self._chat.screen.show(self._chat.ink("bad", plain(f"/{name}: {_told(error)}")))
        if self._chat.screen.has_live_part:
            self._chat.screen.show("")  # so that what follows can be told from it

    def run_during_turn(self, text: str) -> None:
        """Run a command that only looks; tell others to wait."""
        name = text[1:].partition(" ")[0]
        if name in TABLE and not TABLE[name].is_quick:
            self._chat.screen.show(self._chat.ink("dim", f"/{name} waits for the turn to end: Ctrl-C stops it"))
            return
        task = asyncio.get_running_loop().create_task(self.run(text))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _found(self, name: str) -> Run | None:
        """Return the command, or say which one may have been meant; a skill can be called by its name."""
        command = TABLE.get(name)
        if command is not None:
            file, _, function = command.target.partition(":")
            run: Run = getattr(import_module(f"{__name__}.{file}"), function)
            return run
        from amplifier_app_cli.chat.commands import skills

        if not self._chat.is_working and skills.find(self._chat, name) is not None:
            return lambda chat, words: skills.use(chat, f"{name} {words}")
        from amplifier_foundation.errors import did_you_mean

        hint = did_you_mean(f"/{name}", [f"/{known}" for known in self.listed()])
        hint = hint if hint.startswith("did") else "/help lists the commands"
        self._chat.screen.show(plain(f"there is no command /{name}: {hint}"))
        return None


def _told(error: Exception) -> str:
    from amplifier_foundation.errors import FoundationError

    return str(error) if isinstance(error, FoundationError | OSError) else f"{type(error).__name__}: {error}"
