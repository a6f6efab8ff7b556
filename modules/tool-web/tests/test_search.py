"""web_search: real results of the session's engine, or a plain no."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_module_tool_web import mount, on_session_ready
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.search import WebSearchTool


async def found(query: str, max_results: int) -> list[dict[str, Any]]:
    """Return as many results as there are letters in the query."""
    return [{"title": f"T{n}", "url": f"https://{n}.example/", "snippet": query, "rank": n} for n in range(len(query))]


def tool_with(engine: Any, **config: Any) -> WebSearchTool:
    """Return the tool in a session with this engine."""
    coordinator = MockCoordinator()
    if engine is not None:
        coordinator.register_capability("web.search", engine)
    settings = read_config(WebConfig, config, module="tool-web")
    return WebSearchTool(coordinator, settings, Domains(), _no_client)


def _no_client() -> Client:
    raise AssertionError("the engine of another module needs no client")


def code_of(result: ToolResult) -> Any:
    """Return the code of a failure."""
    assert result.error is not None
    return result.error["code"]


async def test_the_published_shape() -> None:
    """Results have title, url and snippet, and there are at most max_results."""
    result = await tool_with(found, max_results=2).execute({"query": "mill"})
    assert result.success
    assert result.output == {
        "query": "mill",
        "results": [
            {"title": "T0", "url": "https://0.example/", "snippet": "mill"},
            {"title": "T1", "url": "https://1.example/", "snippet": "mill"},
        ],
        "count": 2,
    }


async def test_the_engine_gets_the_number() -> None:
    """The engine is told how many results are wanted: five, unless the config says otherwise."""
    seen: list[Any] = []

    async def engine(query: str, max_results: int) -> list[Any]:
        seen.append((query, max_results))
        return []

    result = await tool_with(engine).execute({"query": "x"})
    assert seen == [("x", 5)]
    assert result.output == {"query": "x", "results": [], "count": 0}


async def test_nothing_is_made_up() -> None:
    """Without an engine there are no results, and that is what is said."""
    result = await tool_with(None).execute({"query": "mill"})
    assert not result.success
    assert code_of(result) == "no_search"
    assert "no search is configured" in result.output


@pytest.mark.parametrize("answer", [None, "text", {"results": []}, [1], [{"title": "no url"}], [{"url": 3}]])
async def test_answers_that_make_no_sense(answer: Any) -> None:
    """What is no list of results is a failure."""

    async def engine(query: str, max_results: int) -> Any:
        return answer

    assert code_of(await tool_with(engine).execute({"query": "x"})) == "search_failed"


async def test_an_engine_that_fails() -> None:
    """The engine's error is passed on in words."""

    async def engine(query: str, max_results: int) -> Any:
        raise RuntimeError("quota used up")

    result = await tool_with(engine).execute({"query": "x"})
    assert code_of(result) == "search_failed"
    assert "quota used up" in result.output


async def test_an_engine_that_hangs() -> None:
    """An engine gets the time of the config and no more."""

    async def engine(query: str, max_results: int) -> Any:
        await asyncio.sleep(600)

    assert code_of(await tool_with(engine, timeout=0.05).execute({"query": "x"})) == "timeout"


@pytest.mark.parametrize("given", [{}, {"query": ""}, {"query": "  "}, {"query": 3}])
async def test_input_that_makes_no_sense(given: dict[str, Any]) -> None:
    """A query is a text."""
    assert code_of(await tool_with(found).execute(given)) == "invalid_input"


@pytest.mark.parametrize("when", ["before", "between", "never"])
async def test_the_tool_is_there_when_it_works(when: str) -> None:
    """web_search is mounted when a module brings an engine, whenever it came, and not when there is none."""
    coordinator = MockCoordinator()
    if when == "before":
        coordinator.register_capability("web.search", found)
    close = await mount(coordinator, {"search_engine": "none"})
    if when == "between":
        coordinator.register_capability("web.search", found)
    await on_session_ready(coordinator)
    assert sorted(coordinator.get("tools")) == (["web_fetch"] if when == "never" else ["web_fetch", "web_search"])
    await close()
