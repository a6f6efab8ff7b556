"""`/config`, `/allowed-dirs` and `/denied-dirs`: what the session is made of, and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.chat.session_data import session_settings
from amplifier_app_cli.settings_editor import FOLDER
from amplifier_app_cli.ui.layout import folded
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.paths import expanded
from amplifier_foundation.settings.scopes import parts_of
from amplifier_foundation.settings.settings import read_settings_file

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


CATEGORIES = ("context", "tools", "hooks", "providers", "agents", "behaviors")
_SWITCHED = ("tools", "providers", "agents")
_USAGE = "/config [show|CATEGORY [NAME]|CATEGORY enable|disable NAME|set KEY VALUE|diff]; categories: " + ", ".join(
    CATEGORIES
)


async def config(chat: Conversation, words: str) -> None:
    """Show what the session is made of, switch tools, providers and agents, and change settings."""
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
        hint = did_you_mean(verb, ["show", "set", "diff", *CATEGORIES], otherwise=_USAGE)
        chat.screen.show(plain(f"/config {verb}? {hint}"))


def _plan(chat: Conversation) -> dict[str, Any]:
    """Return the plan with its variables, so that no secret is in it."""
    return chat.runtime.prepared.composed.plan


def _overview(chat: Conversation) -> None:
    """Show the parts by name, and how to see more: the whole plan fills many screens."""
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
    """Return the entries of a category, by name, as the plan has them."""
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
    """Disable something in the running session, or enable it again."""
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
        chat.screen.show(plain(f"{name} is the only provider: no model would be left to answer"))
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
    hint = did_you_mean(name, list(known)) if known else "none are known"
    chat.screen.show(plain(f"{category} have no {name!r}: {hint}"))


def _set(chat: Conversation, words: str) -> None:
    """Set one key of the session's settings; a value that is not valid JSON is text."""
    key, _, text = words.partition(" ")
    if not key or not text.strip():
        chat.screen.show("/config set KEY VALUE, as in: /config set config.providers.provider-mock.config.priority 5")
        return
    try:
        value = json.loads(text)
    except ValueError:
        value = text.strip()
    edit = session_settings(chat).set(parts_of(key), value)
    chat.screen.show(plain(f"{key} is set in {edit.path}; it applies once the session is resumed"))


def _diff(chat: Conversation) -> None:
    """Show what differs from how the session began: what is disabled, and the session's settings."""
    lines = [f"disabled: {category} {name}" for category, off in chat.switched_off.items() for name in off]
    document = read_settings_file(session_settings(chat).file)
    if document is not None and document.data:
        lines.append(json.dumps(chat.scrub(document.data), ensure_ascii=False, indent=2, default=str))
    chat.screen.show(plain("\n".join(lines)) or "nothing differs")


async def allowed(chat: Conversation, words: str) -> None:
    """List the folders that files may be written to, or change them for this session."""
    _change_folders(chat, words, "allowed")


async def denied(chat: Conversation, words: str) -> None:
    """List the folders that files must not be written to, or change them for this session."""
    _change_folders(chat, words, "denied")


def _change_folders(chat: Conversation, words: str, word: str) -> None:
    editor, project = session_settings(chat), chat.runtime.prepared.project
    verb, _, given = words.partition(" ")
    if verb in ("", "list"):
        listed = [f"{project} (the project, always)"] if word == "allowed" else []
        listed += [f"{folder.path} ({folder.scope})" for folder in editor.folders(word)]
        chat.screen.show(plain("\n".join(listed)) or f"no folders are {word}: /{word}-dirs add PATH")
        return
    if verb not in ("add", "remove") or not given.strip():
        chat.screen.show(f"/{word}-dirs [list|add PATH|remove PATH]")
        return
    path = (project / expanded(given.strip())).resolve()
    edit = editor.append if verb == "add" else editor.remove_item
    if not edit(FOLDER.at({"word": word}), str(path)).changed:
        chat.screen.show(plain(f"{path} is already {word}" if verb == "add" else f"{path} was not {word} here"))
        return
    state = word if verb == "add" else f"no longer {word}"
    chat.screen.show(plain(f"{path} is {state} for this session, once it is resumed"))
