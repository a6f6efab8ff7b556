"""`/mode`, `/modes`, and the slash command of each mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.layout import table
from amplifier_app_cli.ui.plain import plain
from amplifier_kit.modes import DISCOVERY, activate, active_mode, clear, tool_lists

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_MISSING = "this session has no modes: its bundle lacks hooks-mode, which `amplifier:behaviors/modes` adds"


async def show(chat: Conversation, words: str) -> None:
    """List the modes; the active one is marked."""
    discovery = _discovery(chat)
    if discovery is None:
        chat.screen.show(_MISSING)
        return
    discovery.clear_cache()
    active = active_mode(chat.coordinator)
    rows = [
        (f"{name} (now)" if name == active else name, source, description)
        for name, description, source, *more in discovery.list_modes()
        if not more or more[0] or name == active
    ]
    chat.screen.show(table(("MODE", "FROM", "DESCRIPTION"), rows, chat.width - 1, whole={"MODE"}))
    for problem in getattr(discovery, "problems", ()):
        chat.screen.show(chat.ink("dim", plain(f"note: {problem}")))


async def mode(chat: Conversation, words: str) -> None:
    """Show, activate or leave a mode; what follows its name is sent as a prompt."""
    name, _, rest = words.partition(" ")
    if not name:
        found = _active(chat)
        chat.screen.show(plain(_title(found)) if found is not None else "No mode active")
    elif name == "off" and not rest:
        await _leave(chat)
    elif name == "info":
        _show_info(chat, rest.strip())
    else:
        await use(chat, name, rest.strip())


async def use(chat: Conversation, name: str, rest: str) -> None:
    """Activate a mode and send what follows; without anything, leave it if it is the active one."""
    discovery = _discovery(chat)
    if discovery is None:
        chat.screen.show(_MISSING)
        return
    found = _find(discovery, name)
    if found is None:
        chat.screen.show(plain(f"Unknown mode: {name}. Use /modes to list available modes."))
        return
    is_active = active_mode(chat.coordinator) == found.name
    if rest == "off" or (not rest and is_active):
        if is_active:
            await _leave(chat)
        else:
            chat.screen.show(
                "No mode active" if active_mode(chat.coordinator) is None else plain(_title(_active(chat)))
            )
        return
    if not is_active:
        await activate(chat.coordinator, found)
    chat.screen.show(plain(_title(found)))
    if rest and rest != "on":
        await chat.turn(chat.given.ending(rest))


def is_shortcut(chat: Conversation, name: str) -> bool:
    """Return whether a slash command is that of a mode."""
    discovery = _discovery(chat)
    return discovery is not None and name.lower() in discovery.get_shortcuts()


async def _leave(chat: Conversation) -> None:
    left = await clear(chat.coordinator)
    chat.screen.show(plain(f"Mode off: {left}") if left is not None else "No mode active")


def _show_info(chat: Conversation, name: str) -> None:
    discovery = _discovery(chat)
    if discovery is None:
        chat.screen.show(_MISSING)
        return
    found = _find(discovery, name) if name else _active(chat)
    if found is None:
        unknown = f"Unknown mode: {name}. Use /modes to list available modes." if name else "No mode active"
        chat.screen.show(plain(unknown))
        return
    lists = {kind.removesuffix("_tools"): ", ".join(tools) for kind, tools in tool_lists(found).items()}
    lines = [_title(found), *(f"{kind}: {tools}" for kind, tools in lists.items() if tools)]
    lines.append(f"other tools: {found.default_action}")
    chat.screen.show(plain("\n".join([*lines, "", found.context] if found.context else lines)))


def _title(found: Any) -> str:
    return f"Mode: {found.name}" + (f" — {found.description}" if found.description else "")


def _discovery(chat: Conversation) -> Any:
    return chat.coordinator.session_state.get(DISCOVERY)


def _find(discovery: Any, name: str) -> Any:
    return discovery.find(name) or discovery.find(discovery.get_shortcuts().get(name.lower(), ""))


def _active(chat: Conversation) -> Any:
    name, discovery = active_mode(chat.coordinator), _discovery(chat)
    return discovery.find(name) if name is not None and discovery is not None else None
