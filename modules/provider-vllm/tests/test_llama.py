"""A real model behind the Responses API and chat completions: llama.cpp's server speaks what vLLM's does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from amplifier_core.llm_errors import AuthenticationError, ContextLengthError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_vllm import VLLMChatProvider, VLLMProvider
from amplifier_testing.llm.llama import LlamaServer, LlamaUnavailableError
from amplifier_testing.llm.rig import Rig, ask

pytestmark = pytest.mark.timeout(900)
both = pytest.mark.parametrize("kind", [VLLMProvider, VLLMChatProvider])


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Give a running llama.cpp server; skip where there can be none."""
    try:
        with LlamaServer(tmp_path_factory.mktemp("llama")) as server:
            yield server
    except LlamaUnavailableError as error:
        pytest.skip(str(error))


def _rig(llama: LlamaServer, kind: Any, *, key: str | None = None, **config: Any) -> Rig:
    coordinator: MockCoordinator = MockCoordinator()
    quick = {"temperature": 0, "free": True, "min_retry_delay": 0, "max_retries": 2, "max_tokens": 12, **config}
    provider = kind(quick, coordinator, base_url=llama.url, api_key=key or llama.key)
    return Rig(provider, None, coordinator)  # type: ignore[arg-type]  # the server is no scripted one


@both
async def test_a_real_answer(llama: LlamaServer, kind: Any) -> None:
    """Real tokens are streamed one by one and counted; models are listed with the server's window."""
    one = _rig(llama, kind)
    response = await one.provider.complete(ask(("system", "Be brief."), "Say hello."))
    deltas = [data["text"] for data in one.events("llm:stream_block_delta")]
    assert len(deltas) > 3
    assert "".join(deltas) == response.text
    assert response.usage is not None
    assert response.usage.input_tokens > 5
    assert 0 < response.usage.output_tokens <= 12
    assert response.metadata is not None
    assert all(key.startswith("vllm:") for key in response.metadata)
    [model] = await one.provider.list_models()
    assert model.context_window == 1024
    await one.provider.close()


@both
async def test_a_real_history(llama: LlamaServer, kind: Any) -> None:
    """What was said elsewhere, calls, results and late instructions are taken."""
    one = _rig(llama, kind)
    calling = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "look", "arguments": {"a": 1}}]}
    seen = {"role": "tool", "tool_call_id": "c1", "content": "a desk"}
    asked = ask(
        "Hi", ("assistant", "Hello"), "Look!", calling, seen, ("system", "Hurry!"), ("developer", "file"), "So?"
    )
    assert (await one.provider.complete(asked)).text
    await one.provider.close()


async def test_a_real_schema(llama: LlamaServer) -> None:
    """An answer by a schema fits it; over Responses, llama.cpp does not look at schemas."""
    one = _rig(llama, VLLMChatProvider, max_tokens=80, structured_output_retries=4)
    properties = {"city": {"type": "string", "enum": ["Rome", "Oslo"]}, "is_big": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "required": ["city", "is_big"], "additionalProperties": False}
    asked = ask("Name a city.", response_format=ResponseFormatJsonSchema(json_schema=schema))
    assert set(json.loads((await one.provider.complete(asked)).text or "")) == {"city", "is_big"}
    await one.provider.close()


@both
async def test_real_errors(llama: LlamaServer, kind: Any) -> None:
    """What the real server refuses becomes the right error, at the first attempt."""
    one = _rig(llama, kind)
    with pytest.raises(ContextLengthError):
        await one.provider.complete(ask("word " * 1500))
    assert one.events("provider:retry") == []
    stranger = _rig(llama, kind, key="sk-wrong-key-12345")
    with pytest.raises(AuthenticationError, match="Check the key in api_key"):
        await stranger.provider.complete(ask())
    for each in (one, stranger):
        await each.provider.close()
