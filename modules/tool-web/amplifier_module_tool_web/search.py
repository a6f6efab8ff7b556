"""The tool `web_search`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from amplifier_core import ToolResult
from amplifier_kit.awaitable import maybe_await
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.failure import Failure

#: `await search(query, max_results)` returns mappings with `title`, `url` and `snippet`.
CAPABILITY: Final = "web.search"
_LONGEST: Final = 2000


class WebSearchTool:
    """Searches the web through the engine that the session was given, and makes nothing up."""

    name = "web_search"
    action = "network.fetch"
    description = "Search the web. Returns titles, URLs and snippets; read a result with web_fetch."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to search for"}},
        "required": ["query"],
    }

    def __init__(self, coordinator: Any, settings: WebConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return `{query, results, count}`, or a failure that says why there is nothing."""
        try:
            query = input.get("query")
            if not isinstance(query, str) or not query.strip():
                raise Failure("invalid_input", "query must be a text that says what to search for")
            results = await self._found(query)
        except Failure as failure:
            return failure.as_result()
        return ToolResult(success=True, output={"query": query, "results": results, "count": len(results)})

    async def _found(self, query: str) -> list[dict[str, str]]:
        search = self._coordinator.get_capability(CAPABILITY)
        if search is None:
            raise Failure("no_search", f"no search is configured: nothing provides the capability {CAPABILITY!r}")
        deadline = asyncio.timeout(self._settings.timeout)
        try:
            async with deadline:
                found = await maybe_await(search(query, self._settings.max_results))
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                raise Failure("timeout", f"the search was not done after {self._settings.timeout:g} s") from None
            raise Failure("search_failed", f"the search failed: {error or type(error).__name__}") from error
        return _results(found)[: self._settings.max_results]


def _results(found: Any) -> list[dict[str, str]]:
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise Failure("search_failed", f"the search answered with {type(found).__name__} instead of a list of results")
    return [_result(item) for item in found]


def _result(item: Any) -> dict[str, str]:
    if not isinstance(item, Mapping) or not isinstance(item.get("url"), str):
        raise Failure("search_failed", "the search answered with a result that has no url")
    return {key: str(item.get(key) or "")[:_LONGEST] for key in ("title", "url", "snippet")}
