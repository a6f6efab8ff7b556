"""Carry what hooks inject for one request only, and keep what they inject for good in its right place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amplifier_core.models import ContextInjection, HookResult

__all__ = ["Injections", "ephemeral_items", "with_injections"]


def ephemeral_items(result: HookResult, event: str) -> list[ContextInjection]:
    """Return what a hook result injects into the next request, one item per hook."""
    if result.action != "inject_context":
        return []
    if result.context_injections:
        return [item for item in result.context_injections if item.ephemeral and item.content]
    if not result.ephemeral or not result.context_injection:
        return []
    return [
        ContextInjection(
            content=result.context_injection,
            role=result.context_injection_role,
            ephemeral=True,
            append_to_last_tool_result=result.append_to_last_tool_result,
            event=event,
        )
    ]


def with_injections(messages: list[dict[str, Any]], items: Iterable[ContextInjection]) -> list[dict[str, Any]]:
    """Return the messages of a request with the items added; the messages given are not changed.

    An item that asks for it is glued to the last message when that is a tool result; the others follow as messages.
    """
    items = list(items)
    if not items:
        return messages
    extended = list(messages)
    is_result = bool(extended) and extended[-1].get("role") == "tool"
    for item in items:
        if is_result and item.append_to_last_tool_result:
            extended[-1] = {**extended[-1], "content": _glued(extended[-1].get("content"), item.content)}
    rest = [item for item in items if not (is_result and item.append_to_last_tool_result)]
    return extended + [{"role": item.role, "content": item.content} for item in rest]


def _glued(content: Any, text: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": f"\n\n{text}"}]
    return f"{content or ''}\n\n{text}"


class Injections:
    """Hold what waits for the next request."""

    def __init__(self) -> None:
        self._waiting: list[ContextInjection] = []

    def add(self, items: Iterable[ContextInjection]) -> None:
        """Let items wait for the next request."""
        self._waiting.extend(items)

    def remind(self, source: str, text: str, *, role: str = "user") -> None:
        """Let a reminder of the loop's own wait for the next request."""
        content = f'<system-reminder source="{source}">\n{text}\n</system-reminder>'
        self._waiting.append(ContextInjection.model_validate({"content": content, "role": role, "ephemeral": True}))

    def take(self) -> list[ContextInjection]:
        """Return what waits, and wait for nothing more."""
        taken, self._waiting = self._waiting, []
        return taken
