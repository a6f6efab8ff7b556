"""`/model` and `/provider`: which model answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.chat.session_data import session_settings
from amplifier_app_cli.settings_editor import PROVIDER
from amplifier_app_cli.ui.layout import counted, duration, table
from amplifier_app_cli.ui.menu import Option
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.errors import did_you_mean
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


#: Where providers keep the model that they ask for when a request names none.
_ATTRIBUTES = ("default_model", "model")
_PINNED = "pinned_provider"
#: Seconds for a provider to list its models.
_SECONDS = 20.0


async def model(chat: Conversation, words: str) -> None:
    """Show the model that answers, or set another one, now and for when the session is resumed."""
    name, one = _answering(chat.coordinator)
    if one is None:
        chat.screen.show("no provider is mounted")
        return
    attribute = _attribute(one)
    if not words:
        words = await _choose(chat, name, one)
        if not words:
            return
    await _check(chat, one, words)
    if attribute is not None:
        setattr(one, attribute, words)
    _keep(chat, name, words)
    when = "from now on" if attribute is not None else "when the session is resumed"
    chat.screen.show(plain(f"{name} uses {words} {when}"))


async def _choose(chat: Conversation, name: str, one: Any) -> str:
    """Return the model that the user picks; empty if they keep the one there is."""
    now = _model(one)
    if not chat.screen.is_interactive:
        chat.screen.show(plain(f"{name}: {now or 'its own choice'}; /provider models lists what there is"))
        return ""
    try:
        async with asyncio.timeout(_SECONDS):
            models = [str(getattr(item, "id", item)) for item in await maybe_await(one.list_models())]
    except Exception as error:  # without the list, /model NAME still works
        reason = chat.scrub(str(error))
        chat.screen.show(
            plain(f"the models could not be listed: {type(error).__name__}: {reason}; /model NAME sets one")
        )
        return ""
    options = [Option(model, "now" if model == now else "") for model in models]
    if len(options) < 2:
        chat.screen.show(plain(f"{name}: {now or 'its own choice'}; /model NAME sets another one"))
        return ""
    picked = await chat.choose(f"Which model of {plain(name)}?", options, at=models.index(now) if now in models else 0)
    if picked is None or picked == now:
        chat.screen.show("the model stays as it is")
        return ""
    return picked


def answering_model(coordinator: Any) -> str:
    """Return the provider that answers with its model; empty without one."""
    name, one = _answering(coordinator)
    model = _model(one) if one is not None else ""
    return f"{name} ({model})" if model else name


def _answering(coordinator: Any) -> tuple[str, Any]:
    """Return the provider that answers: the pinned one, else the one of the lowest priority."""
    providers = coordinator.get("providers")
    pinned = coordinator.session_state.get(_PINNED)
    if isinstance(pinned, str) and pinned in providers:
        return pinned, providers[pinned]
    if not providers:
        return "", None
    name = min(providers, key=lambda known: getattr(providers[known], "priority", 100))
    return name, providers[name]


async def _check(chat: Conversation, one: Any, wanted: str) -> None:
    """Note when the provider does not list the model: its list need not be complete."""
    try:
        async with asyncio.timeout(5.0):
            known = [str(getattr(item, "id", item)) for item in await maybe_await(one.list_models())]
    except Exception as error:  # whatever keeps it from listing them, the model may be there
        chat.screen.show(
            plain(f"note: the models could not be listed: {type(error).__name__}: {chat.scrub(str(error))}")
        )
        return
    if known and wanted not in known:
        chat.screen.show(plain(f"note: the provider does not list {wanted!r}: {did_you_mean(wanted, known)}"))


def _keep(chat: Conversation, name: str, wanted: str) -> None:
    """Write the choice into the settings of the session."""
    entries = [entry for entry in chat.runtime.session.config.get("providers") or [] if isinstance(entry, dict)]
    for entry in entries:
        module = str(entry.get("module"))
        key = str(entry.get("id") or module)
        if name in (key, entry.get("instance_id"), module, module.removeprefix("provider-")):
            session_settings(chat).set((*PROVIDER.at({"name": key}), "config", "default_model"), wanted)
            return
    chat.screen.show(plain(f"note: the plan has no provider {name!r}, so the choice is not saved"))


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
        for one in _mounted(chat, name.strip()) if name.strip() else list(chat.coordinator.get("providers")):
            await _models(chat, one, is_test=verb == "test")
    else:
        chat.screen.show(plain(f"unknown /provider {verb}: expected use NAME, auto, test [NAME], models [NAME]"))


def _list(chat: Conversation) -> None:
    state = chat.coordinator.session_state
    rows = [
        ("*" if state.get(_PINNED) == name else "", name, _model(one), getattr(one, "priority", ""))
        for name, one in chat.coordinator.get("providers").items()
    ]
    chat.screen.show(table(("PINNED", "PROVIDER", "MODEL", "PRIORITY"), rows, chat.width - 1))


def _use(chat: Conversation, name: str) -> None:
    if not _mounted(chat, name):
        return
    if chat.coordinator.get_capability("session.steer") is None:
        chat.screen.show(f"note: the loop {chat.loop} may ignore a pinned provider; loop-streaming does not")
    chat.coordinator.session_state[_PINNED] = name
    chat.screen.show(plain(f"{name} answers from now on; /provider auto undoes that"))


def _mounted(chat: Conversation, name: str) -> list[str]:
    """Return the provider of that name, or none, after showing a hint."""
    known = list(chat.coordinator.get("providers"))
    if name in known:
        return [name]
    chat.screen.show(plain(f"no provider {name!r} is mounted: {did_you_mean(name, known)}"))
    return []


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
        took = duration(time.monotonic() - started)
        chat.screen.show(plain(f"{name}: ok, {counted(len(models), 'model')}, {took}"))
    else:
        chat.screen.show(plain("\n".join([f"{name}:", *(f"  {getattr(model, 'id', model)}" for model in models)])))


def _model(one: Any) -> str:
    attribute = _attribute(one)
    return str(getattr(one, attribute)) if attribute else ""


def _attribute(one: Any) -> str | None:
    return next((name for name in _ATTRIBUTES if isinstance(getattr(one, name, None), str)), None)
