"""Record the run of a real provider as a scenario file, to repeat the run without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_core import llm_errors
from amplifier_core.llm_errors import LLMError
from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_module_provider_mock.yaml_file import YamlError, read_yaml, write_yaml

logger = logging.getLogger("amplifier_module_provider_mock")


class Recording:
    """The part of a scenario file for one session: `turns` for the root, a list under `agents` for a child."""

    def __init__(
        self,
        path: Path,
        agent: str | None = None,
        scrub: Callable[[Any], Any] | None = None,
        project: Path | None = None,
        check: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """Write to `path`, which a config of `project` names; the root begins a new file.

        `scrub` masks secrets in the file, `check` raises PermissionError for a path that must not be written.
        """
        self._path = path
        self._project = project
        self._agent = agent
        self._scrub = scrub
        self._check = check
        self._entries: list[Any] = []
        if agent is None:
            self._write({"turns": []})

    def has(self, agent: str) -> bool:
        """Return whether a child of that agent was recorded: a scenario has one list for all of them."""
        return agent in self._content().get("agents", {})

    def keep(self, entry: dict[str, Any]) -> None:
        """Add an entry; the file is a valid scenario after each."""
        self._entries.append(plain_result(self._scrub(entry)) if self._scrub is not None else entry)
        # Parent and children write the same file, each its own part of it.
        content = self._content()
        if self._agent is None:
            content["turns"] = self._entries
        else:
            content.setdefault("agents", {})[self._agent] = self._entries
        self._write(content)

    def _content(self) -> dict[str, Any]:
        try:
            content = read_yaml(self._path, self._project)
        except YamlError:
            content = None  # a missing or foreign file, which is replaced
        return content if isinstance(content, dict) else {"turns": []}

    def _write(self, content: dict[str, Any]) -> None:
        try:
            self._check(self._path)
            write_yaml(self._path, content, self._project)
        except OSError as error:
            # The run is worth more than its recording.
            logger.error("provider-mock: cannot write the recording %s: %s", self._path, error)


class RecordingProvider:
    """Wrap a provider, and record each of its answers as a scenario entry."""

    def __init__(self, provider: Any, recording: Recording) -> None:
        self._provider = provider
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        """Forward everything but `complete()` to the provider."""
        if name == "_provider":  # not set yet, as while the object is copied
            raise AttributeError(name)
        return getattr(self._provider, name)

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Return the provider's response and record it; record its errors as well."""
        try:
            response = await maybe_await(self._provider.complete(request, **kwargs))
        except LLMError as error:
            self._recording.keep({"error": _error(error)})
            raise
        self._recording.keep(_entry(response))
        return response


def _error(error: LLMError) -> dict[str, Any]:
    known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in llm_errors.__all__)
    facts = {"status_code": error.status_code, "retry_after": error.retry_after}
    given = {key: value for key, value in facts.items() if value is not None}
    return {"type": known, "message": str(error), "retryable": error.retryable, **given}


def _entry(response: Any) -> dict[str, Any]:
    texts: dict[str, list[str]] = {"thinking": [], "text": []}
    for block in response.content if not isinstance(response.content, str) else ():
        kind = getattr(block, "type", None)
        if kind in texts:
            texts[kind].append(str(getattr(block, kind)))
    if isinstance(response.content, str):
        texts["text"].append(response.content)
    entry: dict[str, Any] = {kind: "".join(parts) for kind, parts in texts.items() if any(parts)}
    if response.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in response.tool_calls
        ]
    if response.usage is not None:
        entry["usage"] = _usage(response.usage)
    return entry


def _usage(usage: Any) -> dict[str, Any]:
    counted = ("input_tokens", "output_tokens", "total_tokens", "reasoning_tokens")
    cached = ("cache_read_tokens", "cache_write_tokens")
    counts = {name: getattr(usage, name, None) for name in (*counted, *cached)}
    cost = getattr(usage, "cost_usd", None)
    priced = {"cost_usd": str(cost)} if cost is not None else {}
    return {name: count for name, count in counts.items() if isinstance(count, int)} | priced
