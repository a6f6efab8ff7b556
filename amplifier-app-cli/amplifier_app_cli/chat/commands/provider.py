"""`/provider`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.plain import plain
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation

_SECONDS = 20.0
_PINNED = "pinned_provider"


async def provider(chat: Conversation, words: str) -> None:
    """Show the providers; pin one, let priorities choose again, test one, or list its models."""
    verb, _, name = words.partition(" ")
    if not verb:
        _list(chat)
    elif verb == "use":
        _use(chat, name.strip())
    elif verb == "auto":
        chat.coordinator.session_state.pop(_PINNED, None)
        chat.screen.show("the provider with the lowest priority answers")
    elif verb in ("test", "models"):
        for one in _meant(chat, name.strip()):
            await _models(chat, one, is_test=verb == "test")
    else:
        chat.screen.show(plain(f"/provider {verb}? There are: use NAME, auto, test [NAME], models [NAME]"))


def _list(chat: Conversation) -> None:
    from amplifier_app_cli.ui.table import table

    state = chat.coordinator.session_state
    rows = [
        ("*" if state.get(_PINNED) == name else "", name, _model(one), getattr(one, "priority", ""))
        for name, one in chat.coordinator.get("providers").items()
    ]
    chat.screen.show(table(("PINNED", "PROVIDER", "MODEL", "PRIORITY"), rows, chat.width - 1))


def _use(chat: Conversation, name: str) -> None:
    providers = chat.coordinator.get("providers")
    if name not in providers:
        from amplifier_foundation.errors import did_you_mean

        chat.screen.show(plain(f"no provider {name!r} is mounted: {did_you_mean(name, list(providers))}"))
        return
    if chat.coordinator.get_capability("session.steer") is None:
        chat.screen.show(f"note: the loop {chat.loop} may not heed a pinned provider; loop-streaming does")
    chat.coordinator.session_state[_PINNED] = name
    chat.screen.show(plain(f"{name} answers from now on; /provider auto undoes that"))


def _meant(chat: Conversation, name: str) -> list[str]:
    providers = chat.coordinator.get("providers")
    if name and name not in providers:
        from amplifier_foundation.errors import did_you_mean

        chat.screen.show(plain(f"no provider {name!r} is mounted: {did_you_mean(name, list(providers))}"))
        return []
    return [name] if name else list(providers)


async def _models(chat: Conversation, name: str, *, is_test: bool) -> None:
    """Ask a provider for its models: that needs its server and its key, and costs nothing."""
    one = chat.coordinator.get("providers")[name]
    started = time.monotonic()
    try:
        async with asyncio.timeout(_SECONDS):
            models = await maybe_await(one.list_models())
    except TimeoutError:
        chat.screen.show(chat.ink("bad", plain(f"{name}: no answer within {_SECONDS:g} s")))
        return
    except Exception as error:  # a provider may fail in any way, and that is the result of the test
        chat.screen.show(chat.ink("bad", plain(f"{name}: {type(error).__name__}: {chat.scrub(str(error))}")))
        return
    if is_test:
        from amplifier_app_cli.ui.layout import counted, duration

        took = duration(time.monotonic() - started)
        chat.screen.show(plain(f"{name}: ok, {counted(len(models), 'model')}, {took}"))
    else:
        chat.screen.show(plain("\n".join([f"{name}:", *(f"  {getattr(model, 'id', model)}" for model in models)])))


def _model(one: Any) -> str:
    for attribute in ("default_model", "model"):
        if isinstance(value := getattr(one, attribute, None), str):
            return value
    return ""
