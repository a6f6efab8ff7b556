"""`/model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.plain import plain

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

#: Where providers keep the model that they ask for when a request names none.
_ATTRIBUTES = ("default_model", "model")


async def model(chat: Conversation, words: str) -> None:
    """Show the model that answers, or set another one, now and for when the session is resumed."""
    name, one = _answering(chat)
    if one is None:
        chat.screen.show("no provider is mounted")
        return
    attribute = next((known for known in _ATTRIBUTES if isinstance(getattr(one, known, None), str)), None)
    if not words:
        shown = getattr(one, attribute) if attribute else "its own choice"
        chat.screen.show(plain(f"{name}: {shown}; /provider models lists what there is"))
        return
    await _check(chat, one, words)
    if attribute is not None:
        setattr(one, attribute, words)
    _keep(chat, name, words)
    when = "from now on" if attribute is not None else "when the session is resumed"
    chat.screen.show(plain(f"{name} uses {words} {when}"))


def _answering(chat: Conversation) -> tuple[str, Any]:
    """Return the provider that answers: the pinned one, else the one of the lowest priority."""
    providers = chat.coordinator.get("providers")
    pinned = chat.coordinator.session_state.get("pinned_provider")
    if isinstance(pinned, str) and pinned in providers:
        return pinned, providers[pinned]
    if not providers:
        return "", None
    name = min(providers, key=lambda known: getattr(providers[known], "priority", 100))
    return name, providers[name]


async def _check(chat: Conversation, one: Any, wanted: str) -> None:
    """Note when the provider does not list the model: its list need not be complete."""
    import asyncio

    from amplifier_kit.awaitable import maybe_await

    try:
        async with asyncio.timeout(5.0):
            known = [str(getattr(item, "id", item)) for item in await maybe_await(one.list_models())]
    except Exception as error:  # whatever keeps it from listing them, the model may be there
        chat.screen.show(
            plain(f"note: the models could not be listed: {type(error).__name__}: {chat.scrub(str(error))}")
        )
        return
    if known and wanted not in known:
        from amplifier_foundation.errors import did_you_mean

        chat.screen.show(plain(f"note: the provider does not list {wanted!r}: {did_you_mean(wanted, known)}"))


def _keep(chat: Conversation, name: str, wanted: str) -> None:
    """Write the choice into the settings of the session."""
    from amplifier_app_cli.chat.session_data import set_in_session

    entries = [entry for entry in chat.runtime.session.config.get("providers") or [] if isinstance(entry, dict)]
    for entry in entries:
        module = str(entry.get("module"))
        key = str(entry.get("id") or module)
        if name in (key, entry.get("instance_id"), module, module.removeprefix("provider-")):
            set_in_session(chat, ("config", "providers", key, "config", "default_model"), wanted)
            return
    chat.screen.show(plain(f"note: nothing in the plan is called {name!r}, so this is not kept for later"))
