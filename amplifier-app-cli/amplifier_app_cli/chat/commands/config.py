"""`/config`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

CATEGORIES = ("context", "tools", "hooks", "providers", "agents", "behaviors")
_SWITCHED = ("tools", "providers", "agents")
_USAGE = "/config [show|CATEGORY [NAME]|CATEGORY enable|disable NAME|set KEY VALUE|diff]; categories: " + ", ".join(
    CATEGORIES
)


async def config(chat: Conversation, words: str) -> None:
    """Show what the session is made of, switch tools, providers and agents, and set what is for later."""
    verb, _, rest = words.partition(" ")
    rest = rest.strip()
    if not verb:
        _overview(chat)
    elif verb == "show":
        _show(chat, _plan(chat))
    elif verb == "set":
        _set(chat, rest)
    elif verb == "diff":
        _diff(chat)
    elif verb == "save":
        chat.screen.show("saving switched modules is not in this release: /config set KEY VALUE keeps a setting")
    elif verb in CATEGORIES:
        _category(chat, verb, rest)
    else:
        from amplifier_foundation.errors import did_you_mean

        hint = did_you_mean(verb, ["show", "set", "diff", *CATEGORIES])
        chat.screen.show(plain(f"/config {verb}? {hint if hint.startswith('did') else _USAGE}"))


def _plan(chat: Conversation) -> dict[str, Any]:
    """Return the plan with its variables, so that no secret is in it."""
    return chat.runtime.prepared.composed.plan


def _overview(chat: Conversation) -> None:
    """Show the parts by name, and how to see more: the whole plan fills many screens."""
    from amplifier_app_cli.ui.layout import folded

    session = _plan(chat).get("session") or {}
    lines = [f"{name}: {_module(session.get(key))}" for key, name in (("orchestrator", "loop"), ("context", "memory"))]
    for category in CATEGORIES:
        names = [*_listed(chat, category), *(f"{name} (disabled)" for name in chat.switched_off.get(category, {}))]
        lines.append(f"{category}: {', '.join(names) or 'none'}")
    lines.append("/config CATEGORY NAME shows one of them, /config show the whole plan, /config diff what was changed")
    chat.screen.show(folded(plain(str(chat.scrub("\n".join(lines)))), chat.width - 1))


def _module(spec: Any) -> str:
    return str(spec.get("module") if isinstance(spec, dict) else spec)


def _show(chat: Conversation, value: Any) -> None:
    text = json.dumps(chat.scrub(value), ensure_ascii=False, indent=2, default=str)
    chat.screen.show(plain(text))


def _category(chat: Conversation, category: str, words: str) -> None:
    verb, _, name = words.partition(" ")
    if verb in ("enable", "disable"):
        _switch(chat, category, name.strip(), is_on=verb == "enable")
        return
    there = _listed(chat, category)
    if not words:
        off = [f"{name} (disabled)" for name in chat.switched_off.get(category, {})]
        chat.screen.show(plain("\n".join([*there, *off]) or f"there are no {category}"))
    elif words in there:
        _show(chat, there[words])
    else:
        _unknown(chat, category, words, there)


def _listed(chat: Conversation, category: str) -> Mapping[str, Any]:
    """Return what there is of a category, by name, with what the plan says of it."""
    composed = chat.runtime.prepared.composed
    if category == "context":
        return composed.context
    if category == "behaviors":
        return composed.namespaces
    if category == "agents":
        agents = chat.runtime.session.config.get("agents")
        return agents if isinstance(agents, dict) else {}
    entries = [entry for entry in _plan(chat).get(category) or [] if isinstance(entry, dict)]
    listed = {str(entry.get("id") or entry.get("module")): entry for entry in entries}
    if category == "hooks":
        return listed
    return {**listed, **{name: listed.get(name, {"mounted": True}) for name in chat.coordinator.get(category)}}


def _switch(chat: Conversation, category: str, name: str, *, is_on: bool) -> None:
    """Take something out of the running session, or put it back."""
    if category not in _SWITCHED:
        chat.screen.show(f"{category} cannot be switched in a session that runs; {', '.join(_SWITCHED)} can")
        return
    mounted = _mounted(chat, category)
    off = chat.switched_off.setdefault(category, {})
    source, target = (off, mounted) if is_on else (mounted, off)
    if name in target:
        chat.screen.show(plain(f"{name} is {'enabled' if is_on else 'disabled'} already"))
    elif name not in source:
        _unknown(chat, category, name, {**mounted, **off})
    elif category == "providers" and not is_on and len(mounted) == 1:
        chat.screen.show(plain(f"{name} is the only provider: nobody would answer"))
    else:
        target[name] = source.pop(name)
        chat.screen.show(plain(f"{name} is {'enabled' if is_on else 'disabled'} in this chat"))


def _mounted(chat: Conversation, category: str) -> dict[str, Any]:
    if category == "agents":
        agents: dict[str, Any] = chat.runtime.session.config.setdefault("agents", {})
        return agents
    mounted: dict[str, Any] = chat.coordinator.get(category)
    return mounted


def _unknown(chat: Conversation, category: str, name: str, known: Mapping[str, Any]) -> None:
    from amplifier_foundation.errors import did_you_mean

    hint = did_you_mean(name, list(known)) if known else "there are none"
    chat.screen.show(plain(f"{category} have no {name!r}: {hint}"))


def _set(chat: Conversation, words: str) -> None:
    """Set one key of the session's settings; a value is JSON when it can be read as that."""
    from amplifier_app_cli.chat.session_data import session_file, set_in_session

    key, _, text = words.partition(" ")
    if not key or not text.strip():
        chat.screen.show("/config set KEY VALUE, as in: /config set config.providers.provider-mock.config.priority 5")
        return
    set_in_session(chat, key, _value(text.strip(), json.loads))
    chat.screen.show(plain(f"{key} is set in {session_file(chat)}; it counts from when the session is resumed"))


def _value(text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except ValueError:
        return text


def _diff(chat: Conversation) -> None:
    """Say what differs from how the session began: what is switched off, and what its settings say."""
    from amplifier_app_cli.chat.session_data import session_file
    from amplifier_foundation.settings.settings import read_settings_file

    lines = [f"disabled: {category} {name}" for category, off in chat.switched_off.items() for name in off]
    document = read_settings_file(session_file(chat))
    if document is not None and document.data:
        lines.append(json.dumps(chat.scrub(document.data), ensure_ascii=False, indent=2, default=str))
    chat.screen.show(plain("\n".join(lines)) or "nothing differs")
