"""Write a scenario file from a real provider's run, so that the run can be repeated without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from amplifier_core.llm_errors import LLMError


class RecordingProvider:
    """Stand in for a provider, pass every call on, and keep what it answered as a scenario entry."""

    def __init__(self, provider: Any, path: Path) -> None:
        self._provider = provider
        self._path = path
        self._entries: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        """Be the provider in everything but `complete()`."""
        return getattr(self._provider, name)

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Return what the provider returns, and write it down; a provider error is written down too."""
        try:
            response = await self._provider.complete(request, **kwargs)
        except LLMError as error:
            self._keep({"error": {"type": type(error).__name__, "message": str(error), "retryable": error.retryable}})
            raise
        self._keep(_entry(response))
        return response

    def _keep(self, entry: dict[str, Any]) -> None:
        """Write the whole file anew and put it in place at once: it is always a valid scenario."""
        import yaml

        self._entries.append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        text = yaml.safe_dump({"turns": self._entries}, allow_unicode=True, sort_keys=False, width=120)
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, self._path)


def _entry(response: Any) -> dict[str, Any]:
    texts = {"text": [], "thinking": []}  # type: dict[str, list[str]]
    for block in response.content:
        kind = getattr(block, "type", None)
        if kind in texts:
            texts[kind].append(str(getattr(block, kind)))
    entry: dict[str, Any] = {kind: "".join(parts) for kind, parts in texts.items() if parts}
    if response.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in response.tool_calls
        ]
    if response.usage is not None:
        counts = response.usage.model_dump(exclude_none=True, exclude={"cost_usd"})
        entry["usage"] = {name: count for name, count in counts.items() if isinstance(count, int)}
    return entry
