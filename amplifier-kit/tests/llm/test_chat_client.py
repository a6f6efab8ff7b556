"""Where a server is, and what is sent to it besides the call."""

from __future__ import annotations

import pytest

from amplifier_kit.llm.client import NO_KEY, list_server_models, server_client, server_url
from amplifier_testing.llm import ChatWire, ModelServer


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/ ", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/chat/completions", "http://localhost:8080/v1"),
        ("https://gate.example/team/api", "https://gate.example/team/api"),
        ("localhost:8080", "localhost:8080"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    """An address without a path gets the usual one, and the path of the call is not part of it."""
    assert server_url(given) == url


@pytest.mark.parametrize("key", [None, "sk-own-key"])
async def test_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """What the environment holds for OpenAI's own service is not sent to another server."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-openai")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-secret-of-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: secret\nAuthorization: Bearer secret\nnonsense")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://secret.invalid")
    with ModelServer() as server:
        server.answers(ChatWire().models("m"))
        client = await server_client(f"{server.url}/v1", api_key=key, headers={"X-Own": "yes"})
        assert [model["id"] for model in await list_server_models(client)] == ["m"]
        await client.close()
        [heard] = server.requests
    assert "secret" not in str(heard.headers)
    assert heard.headers["authorization"] == f"Bearer {key or NO_KEY}"
    assert heard.headers["x-own"] == "yes"
