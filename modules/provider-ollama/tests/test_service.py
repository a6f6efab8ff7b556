"""What is Ollama's alone: its windows, models that are missing or cannot think, and what its SDK must be kept from."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.llm_errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    RateLimitError,
    StreamError,
)
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_provider_ollama import OllamaProvider
from amplifier_testing.llm import ModelServer, OllamaWire, Reply, Said
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = OllamaWire()
MISSING = WIRE.refusal(404, "", "model 'llama3.2:3b' not found")
MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def rig() -> AsyncIterator[MakeRig]:
    """Give `rig(*replies, **config)`; other paths than that of calls are not scripted."""
    made: list[Rig] = []
    with ModelServer() as server:

        async def build(*replies: Any, **config: Any) -> Rig:
            said = [WIRE.reply(item) if isinstance(item, Said) else item for item in replies]
            server.answers(*said, path=WIRE.path)
            coordinator: MockCoordinator = MockCoordinator()
            quick = {"min_retry_delay": 0, "max_retries": 1, "host": server.url, "circuit_breaker_threshold": 0}
            made.append(Rig(OllamaProvider({**quick, **config}, coordinator), server, coordinator))
            return made[-1]

        yield build
        for one in made:
            await one.provider.close()


def _paths(one: Rig) -> list[str]:
    return [heard.path for heard in one.server.requests]


async def test_the_window_is_asked_for(rig: MakeRig) -> None:
    """After the first answer the server is asked once what window it loaded the model with; that is then told."""
    one = await rig(Said())
    one.server.answers(WIRE.loaded(llama3__2=1, **{"llama3.2__3b": 4096}), path="/api/ps")
    assert one.provider.get_model_info().context_window == 32_768
    for _ in range(2):
        await one.provider.complete(ask())
    assert _paths(one) == ["/api/chat", "/api/ps", "/api/chat"]
    assert "num_ctx" not in one.server.bodies[0]["options"]
    info = one.provider.get_model_info()
    assert (info.context_window, info.max_output_tokens) == (4096, 4096)


async def test_a_given_window_is_not_asked_for(rig: MakeRig) -> None:
    """With a window in the config the server gets it, or is believed to have it, and is not asked."""
    for config in ({"num_ctx": 8192}, {"context_window": 8192}):
        one = await rig(Said(), **config)
        await one.provider.complete(ask())
        assert one.provider.get_model_info().context_window == 8192
    assert "/api/ps" not in _paths(one)


async def test_a_server_that_does_not_tell(rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    """A server that cannot be asked is no trouble: it is asked once, and a warning says what to set."""
    one = await rig(Said())
    for _ in range(2):
        assert (await one.provider.complete(ask())).text == "Hello world"
    assert one.provider.get_model_info().context_window == 32_768
    assert _paths(one).count("/api/ps") == 1
    assert caplog.text.count("set num_ctx") == 1


async def test_overflow_teaches_the_window(rig: MakeRig) -> None:
    """A conversation that does not fit is refused; the true window is then known to whoever compacts it."""
    one = await rig(WIRE.refusal(400, "", "the input length exceeds the context length"))
    one.server.answers(WIRE.loaded(**{"llama3.2__3b": 2048}), path="/api/ps")
    with pytest.raises(ContextLengthError):
        await one.provider.complete(ask())
    assert _paths(one) == ["/api/chat", "/api/ps"]
    assert one.provider.get_model_info().context_window == 2048


async def test_a_model_that_cannot_think(rig: MakeRig) -> None:
    """A model that cannot think is asked again without, and from then on at once."""
    one = await rig(WIRE.refusal(400, "", '"llama3.2:3b" does not support thinking'), Said(), num_ctx=1)
    for _ in range(2):
        response = await one.provider.complete(ask(), extended_thinking=True)
        assert response.text == "Hello world"
    assert [body.get("think") for body in one.server.bodies] == [True, None, None]
    assert one.events("provider:retry") == []


async def test_a_model_without_tools(rig: MakeRig) -> None:
    """A model that cannot call tools is an error: without them it would be another task."""
    one = await rig(WIRE.refusal(400, "", "registry.ollama.ai/library/gemma:2b does not support tools"))
    with pytest.raises(InvalidRequestError, match="does not support tools"):
        await one.provider.complete(ask(tools=("look",)))


async def test_a_missing_model(rig: MakeRig) -> None:
    """A model that is not there is an error, unless it may be pulled."""
    one = await rig(MISSING)
    with pytest.raises(NotFoundError, match="provider models"):
        await one.provider.complete(ask())
    assert _paths(one) == ["/api/chat"]


async def test_pulling(rig: MakeRig) -> None:
    """With `auto_pull` the model is got first, and how far that is is told; each step once."""
    one = await rig(MISSING, Said(), auto_pull=True, num_ctx=1)
    one.server.answers(WIRE.pulling("pulling manifest", "pulling manifest", "success"), path="/api/pull")
    assert (await one.provider.complete(ask())).text == "Hello world"
    assert _paths(one) == ["/api/chat", "/api/pull", "/api/chat"]
    assert one.events("provider:pull") == [
        {"provider": "ollama", "model": "llama3.2:3b", "status": status, "percent": 50}
        for status in ("pulling manifest", "success")
    ]


async def test_one_pull_for_all(rig: MakeRig) -> None:
    """Calls that miss the same model at the same time wait for one pull."""
    pulled = asyncio.Event()

    def answer(heard: Any) -> Reply:
        return WIRE.reply(Said()) if pulled.is_set() else MISSING

    def pull(heard: Any) -> Reply:
        pulled.set()
        return WIRE.pulling("success").slow(0, wait=0.2)

    one = await rig(answer, auto_pull=True, num_ctx=1)
    one.server.answers(pull, path="/api/pull")
    # All of them miss it before the pull begins, since it takes the lock that they wait for.
    assert isinstance(one.provider, OllamaProvider)
    one.provider._pulling["llama3.2:3b"] = lock = asyncio.Lock()
    async with lock:
        calls = [asyncio.create_task(one.provider.complete(ask())) for _ in range(3)]
        assert await wait_for(lambda: len(lock._waiters or ()) == 3, timeout=60)
    assert [answer.text for answer in await asyncio.gather(*calls)] == ["Hello world"] * 3
    assert _paths(one).count("/api/pull") == 1


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (WIRE.pulling("pulling manifest"), StreamError),
        (WIRE.refusal(500, "", "pull model manifest: file does not exist"), Exception),
        (WIRE.refusal(401, "", "unauthorized"), AuthenticationError),
    ],
)
async def test_a_pull_that_fails(rig: MakeRig, reply: Reply, expected: type[Exception]) -> None:
    """A pull that does not come to its end is no model."""
    one = await rig(MISSING, auto_pull=True, max_retries=0)
    one.server.answers(reply, path="/api/pull")
    with pytest.raises(expected):
        await one.provider.complete(ask())
    assert _paths(one) == ["/api/chat", "/api/pull"]


async def test_ids_are_made(rig: MakeRig) -> None:
    """Calls that have no id get different ones."""
    whole = WIRE.reply(Said((), calls=(("ID", "look", {}), ("ID", "look", {}))))
    one = await rig(Reply.stream([piece.replace(b'"id": "ID", ', b"") for piece in whole.pieces]), num_ctx=1)
    response = await one.provider.complete(ask(tools=("look",)))
    assert len({call.id for call in response.tool_calls or ()}) == 2


async def test_images_are_no_file_names(rig: MakeRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image's data that happens to be the name of a file is sent as it is, and the file stays here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret12").write_text("the secret", encoding="utf-8")
    source = {"type": "base64", "media_type": "image/png", "data": "secret12"}
    one = await rig(Said(), num_ctx=1)
    await one.provider.complete(ask({"role": "user", "content": [{"type": "image", "source": source}]}))
    assert one.server.bodies[-1]["messages"][0]["images"] == ["secret12"]


async def test_schemas_reach_the_server_whole(rig: MakeRig) -> None:
    """Nested parts of a tool's schema, which the SDK's types would lose, arrive."""
    nested = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
    request = ask(tools=("look",))
    assert request.tools is not None
    request.tools[0].parameters["properties"] = {"a": nested}
    one = await rig(Said(), num_ctx=1)
    await one.provider.complete(request)
    assert one.server.bodies[-1]["tools"][0]["function"]["parameters"]["properties"] == {"a": nested}


async def test_waits_that_are_asked_for(rig: MakeRig) -> None:
    """The headers of a refusal count, though the SDK does not pass them on."""
    one = await rig(WIRE.refusal(429, "", "too many", retry_after="0.01"), Said(), num_ctx=1)
    await one.provider.complete(ask())
    retry = one.event("provider:retry")
    assert (retry["error_type"], retry["retry_after"]) == (RateLimitError.__name__, 0.01)


async def test_the_key(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is sent when there is one, of the config or the environment, and not otherwise."""
    await (await rig(Said(), num_ctx=1)).provider.complete(ask())
    one = await rig(num_ctx=1, api_key=KEY)
    await one.provider.complete(ask())
    monkeypatch.setenv("OLLAMA_API_KEY", "of-the-environment")
    await (await rig(num_ctx=1)).provider.complete(ask())
    sent = [heard.headers.get("authorization") for heard in one.server.requests]
    assert sent == [None, f"Bearer {KEY}", "Bearer of-the-environment"]


async def test_a_proxy_is_not_for_this_machine(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on this machine is reached whatever proxy the environment names, also by the first to import the SDK."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "elsewhere.example")
    monkeypatch.delitem(sys.modules, "ollama", raising=False)
    assert (await (await rig(Said(), num_ctx=1)).provider.complete(ask())).text == "Hello world"
    assert ("NO_PROXY" in os.environ, os.environ["no_proxy"]) == (False, "elsewhere.example")


async def test_schemas_with_tools(rig: MakeRig) -> None:
    """Together with tools a schema is asked for in words: held to it, a model could call none."""
    wanted = ResponseFormatJsonSchema(json_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    one = await rig(Said(('{"a": 1}',)), num_ctx=1)
    response = await one.provider.complete(ask(tools=("look",), response_format=wanted))
    assert json.loads(response.text or "") == {"a": 1}
    body = one.server.bodies[-1]
    assert "format" not in body
    assert "JSON schema" in body["messages"][-1]["content"]


async def test_models(rig: MakeRig) -> None:
    """Each model is described by what the server says of it; one that it says nothing of is listed as well."""
    one = await rig(max_tokens=100)
    one.server.answers(WIRE.models("a", "b"), path="/api/tags")
    one.server.answers(
        lambda heard: (
            WIRE.shown("tools", "thinking", context_length=999)
            if heard.json["model"] == "a"
            else WIRE.refusal(500, "", "broken")
        ),
        path="/api/show",
    )
    first, second = await one.provider.list_models()
    assert (first.id, first.context_window, first.max_output_tokens) == ("a", 999, 100)
    assert {"tools", "thinking", "local"} <= set(first.capabilities)
    assert "vision" not in first.capabilities
    assert (second.id, second.context_window) == ("b", 32_768)


async def test_metadata_and_raw_debug(rig: MakeRig) -> None:
    """How long it took is kept; `raw_debug` shows what was sent."""
    one = await rig(Said(), num_ctx=1, raw_debug=True)
    response = await one.provider.complete(ask())
    assert response.metadata == {"ollama:done_reason": "stop", "ollama:total_duration": 1}
    assert one.event("llm:request")["raw"]["messages"] == [{"role": "user", "content": "hello"}]
