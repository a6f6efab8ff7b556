"""A real model: llama.cpp's own server with SmolLM2, in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.llm_errors import AuthenticationError, ContextLengthError, InvalidRequestError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_provider_chat_completions import ChatCompletionsProvider
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


@pytest.fixture
async def rig(llama: LlamaServer) -> AsyncIterator[Rig]:
    """Give a provider that asks the real server, with short answers."""
    made = _rig(llama, max_tokens=12)
    yield made
    await made.provider.close()


def _rig(llama: LlamaServer, *, api_key: str | None = None, **config: Any) -> Rig:
    coordinator: MockCoordinator = MockCoordinator()
    quick = {"temperature": 0, "seed": 1, "free": True, "min_retry_delay": 0, "max_retries": 2, **config}
    provider = ChatCompletionsProvider(quick, coordinator, base_url=llama.url, api_key=api_key or llama.key)
    return Rig(provider, None, coordinator)  # type: ignore[arg-type]  # the server is no scripted one


async def test_a_real_answer(rig: Rig) -> None:
    """Real tokens are streamed one by one, counted, and free."""
    response = await rig.provider.complete(ask(("system", "Be brief."), "Say hello."))
    deltas = [data["text"] for data in rig.events("llm:stream_block_delta")]
    assert len(deltas) > 3
    assert "".join(deltas) == response.text
    assert response.finish_reason in ("stop", "length")
    assert response.usage is not None
    assert response.usage.input_tokens > 5
    assert 0 < response.usage.output_tokens <= 12
    assert str(response.usage.cost_usd) == "0"
    again = await rig.provider.complete(ask(("system", "Be brief."), "Say hello."))
    assert again.usage is not None
    assert (again.usage.cache_read_tokens or 0) > 5


async def test_a_real_answer_in_one_piece(llama: LlamaServer) -> None:
    """An answer in one piece is the same text."""
    one = _rig(llama, max_tokens=6, use_streaming=False)
    streamed = _rig(llama, max_tokens=6)
    texts = [(await each.provider.complete(ask("Say hello."))).text for each in (one, streamed)]
    assert texts[0]
    assert texts[0] == texts[1]
    assert one.names == ["llm:request", "llm:response"]
    for each in (one, streamed):
        await each.provider.close()


async def test_real_models(rig: Rig) -> None:
    """The server's model is listed with the window that the server gave it."""
    [model] = await rig.provider.list_models()
    assert "SmolLM2" in model.id
    assert model.context_window == 1024


async def test_a_real_schema(llama: LlamaServer) -> None:
    """The server keeps the model to a schema."""
    one = _rig(llama, max_tokens=80, structured_output_retries=4)
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "is_big": {"type": "boolean"}},
        "required": ["city", "is_big"],
        "additionalProperties": False,
    }
    asked = ask("Name a city.", response_format=ResponseFormatJsonSchema(json_schema=schema))
    answer = json.loads((await one.provider.complete(asked)).text or "")
    assert set(answer) == {"city", "is_big"}
    await one.provider.close()


async def test_a_real_history(rig: Rig) -> None:
    """Tools, calls, results and late instructions are taken by the model's template."""
    calling = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "look", "arguments": {"a": 1}}]}
    seen = {"role": "tool", "tool_call_id": "c1", "content": "a desk"}
    asked = ask("Look!", calling, seen, ("system", "Hurry!"), ("developer", "file"), "What is it?", tools=("look",))
    response = await rig.provider.complete(asked)
    assert response.text or response.tool_calls


async def test_real_errors(rig: Rig, llama: LlamaServer) -> None:
    """What the real server refuses becomes the right error, at the first attempt."""
    with pytest.raises(ContextLengthError, match="context size"):
        await rig.provider.complete(ask("word " * 1500))
    pixel = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    with pytest.raises(InvalidRequestError, match="not supported"):
        await rig.provider.complete(ask({"role": "user", "content": [pixel]}))
    assert rig.events("provider:retry") == []
    stranger = _rig(llama, api_key="sk-wrong-key-12345")
    with pytest.raises(AuthenticationError, match="amplifier provider test") as caught:
        await stranger.provider.complete(ask())
    assert "sk-wrong-key-12345" not in str(caught.value)
    await stranger.provider.close()


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


async def test_a_real_session(llama: LlamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real turn with a real model streams into a real session."""
    monkeypatch.delenv("CHAT_COMPLETIONS_BASE_URL")
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [
            {
                "module": "provider-chat-completions",
                "config": {"base_url": llama.url, "api_key": llama.key, "max_tokens": 8, "free": True},
            }
        ],
    }
    heard: list[tuple[str, dict[str, Any]]] = []
    async with AmplifierSession(plan) as session:
        session.coordinator.hooks.register("*", lambda event, data: heard.append((event, data)))
        answer = await session.execute("Say hello.")
        messages = await session.coordinator.get("context").get_messages()
    assert answer
    assert [message["role"] for message in messages] == ["user", "assistant"]
    said = [data["text"] for event, data in heard if event == "llm:stream_block_delta"]
    assert "".join(said) == answer
