"""A real model behind the Messages API: llama.cpp's server speaks it, with SmolLM2 in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.llm_errors import AuthenticationError, ContextLengthError
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_provider_anthropic import AnthropicProvider
from amplifier_testing.llm.llama import LlamaServer, LlamaUnavailableError
from amplifier_testing.llm.rig import Rig, ask

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Give a running llama.cpp server; skip where there can be none."""
    try:
        with LlamaServer(tmp_path_factory.mktemp("llama")) as server:
            yield server
    except LlamaUnavailableError as error:
        pytest.skip(str(error))


def _rig(llama: LlamaServer, *, key: str | None = None, **config: Any) -> Rig:
    coordinator: MockCoordinator = MockCoordinator()
    quick = {"temperature": 0, "min_retry_delay": 0, "max_retries": 2, "max_tokens": 12, **config}
    provider = AnthropicProvider({"base_url": llama.url, **quick}, coordinator, api_key=key or llama.key)
    return Rig(provider, None, coordinator)  # type: ignore[arg-type]  # the server is no scripted one


async def test_a_real_answer(llama: LlamaServer) -> None:
    """Real tokens are streamed one by one and counted, with what came from the server's cache."""
    one = _rig(llama)
    response = await one.provider.complete(ask(("system", "Be brief."), "Say hello."))
    deltas = [data["text"] for data in one.events("llm:stream_block_delta")]
    assert len(deltas) > 3
    assert "".join(deltas) == response.text
    assert response.finish_reason in ("stop", "length")
    assert response.usage is not None
    assert response.usage.input_tokens > 5
    assert 0 < response.usage.output_tokens <= 12
    again = await one.provider.complete(ask(("system", "Be brief."), "Say hello."))
    assert again.usage is not None
    assert (again.usage.cache_read_tokens or 0) > 5
    await one.provider.close()


async def test_a_real_history(llama: LlamaServer) -> None:
    """Tools, calls, results and late instructions are taken."""
    one = _rig(llama)
    calling = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "look", "arguments": {"a": 1}}]}
    seen = {"role": "tool", "tool_call_id": "c1", "content": "a desk"}
    asked = ask("Look!", calling, seen, ("system", "Hurry!"), ("developer", "file"), "What is it?", tools=("look",))
    response = await one.provider.complete(asked)
    assert response.text or response.tool_calls
    await one.provider.close()


async def test_real_errors(llama: LlamaServer) -> None:
    """What the real server refuses becomes the right error, at the first attempt."""
    one = _rig(llama)
    with pytest.raises(ContextLengthError):
        await one.provider.complete(ask("word " * 1500))
    assert one.events("provider:retry") == []
    stranger = _rig(llama, key="sk-wrong-key-12345")
    with pytest.raises(AuthenticationError, match="amplifier provider test") as caught:
        await stranger.provider.complete(ask())
    assert "sk-wrong-key-12345" not in str(caught.value)
    for each in (one, stranger):
        await each.provider.close()


async def test_a_real_cancel(llama: LlamaServer) -> None:
    """A cancelled answer frees the server's only place for the next one."""
    one = _rig(llama, max_tokens=900)
    task = asyncio.create_task(one.provider.complete(ask("Tell me a very long story about a desk.")))
    assert await wait_for(lambda: len(one.events("llm:stream_block_delta")) > 2, timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await one.provider.complete(ask("Say hello.", max_output_tokens=3))).text
    await one.provider.close()


async def test_a_real_session(llama: LlamaServer) -> None:
    """A real turn with a real model streams into a real session."""
    config = {"base_url": llama.url, "api_key": llama.key, "max_tokens": 8}
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-anthropic", "config": config}],
    }
    said: list[str] = []
    async with AmplifierSession(plan) as session:
        session.coordinator.hooks.register("llm:stream_block_delta", lambda _, data: said.append(data["text"]))
        answer = await session.execute("Say hello.")
        messages = await session.coordinator.get("context").get_messages()
    assert answer
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert "".join(said) == answer
