"""Ask a model one question outside of the conversation of a session."""

from __future__ import annotations

from typing import Any

from amplifier_core.message_models import ChatRequest, Message
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.reply import read_reply
from amplifier_kit.engine.loop.request import choose_provider
from amplifier_kit.engine.routing.resolver import preferences_for

__all__ = ["ask_model", "ask_provider"]


async def ask_model(coordinator: Any, role: str, rules: str, question: str, *, max_output_tokens: int) -> str:
    """Return the text that a model of a role answers; without one, the provider of the session answers.

    Nothing is streamed. Raises RuntimeError without a provider, and what resolver and provider raise.
    """
    name, model = await _choose(coordinator, role)
    provider = coordinator.get("providers")[name]
    return await ask_provider(provider, model, rules, question, max_output_tokens=max_output_tokens)


async def ask_provider(provider: Any, model: str | None, rules: str, question: str, *, max_output_tokens: int) -> str:
    """Return the text that a provider answers; nothing is streamed. Raises what the provider raises."""
    request = ChatRequest(
        messages=[Message(role="system", content=rules), Message(role="user", content=question)],
        max_output_tokens=max_output_tokens,
        metadata={"stream": False},
        model=model,
    )
    response = await maybe_await(provider.complete(request, extended_thinking=False))
    return (await read_reply(provider, response, ())).text.strip()


async def _choose(coordinator: Any, role: str) -> tuple[str, str | None]:
    providers = coordinator.get("providers") or {}
    for preference in await preferences_for(coordinator, role):
        if preference.provider in providers:
            return preference.provider, preference.model or None
    pinned = coordinator.session_state.get("pinned_provider")
    return choose_provider(providers, pinned if isinstance(pinned, str) else None).name, None
