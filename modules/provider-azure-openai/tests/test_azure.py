"""What is Azure's alone: addresses, versions, identities, deployments, and chains that end with a compaction."""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from amplifier_core.llm_errors import AuthenticationError, ConfigurationError, ContentFilterError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_azure_openai import AzureOpenAIProvider, mount
from amplifier_module_provider_azure_openai.config import AzureResource
from amplifier_testing.llm import ModelServer, Reply, ResponsesWire, Said
from amplifier_testing.llm.rig import KEY, Rig, ask

WIRE = ResponsesWire()
TOKEN = "token-of-azure-0123456789"


def _rig(server: ModelServer, *replies: Any, **config: Any) -> Rig:
    server.answers(*[WIRE.reply(item) if isinstance(item, Said) else item for item in replies])
    coordinator: MockCoordinator = MockCoordinator()
    settings = {"azure_endpoint": server.url, "api_key": KEY, "min_retry_delay": 0, "max_retries": 1}
    return Rig(AzureOpenAIProvider({**settings, **config}, coordinator), server, coordinator)


async def _complete(one: Rig, *said: Any, **fields: Any) -> Any:
    try:
        return await one.provider.complete(ask(*said, **fields))
    finally:
        await one.provider.close()


@pytest.mark.parametrize(
    ("path", "config", "asked"),
    [
        ("", {}, "/openai/responses?api-version=2025-04-01-preview"),
        ("/", {"api_version": "2026-01-01"}, "/openai/responses?api-version=2026-01-01"),
        ("/openai/v1/", {}, "/openai/v1/responses?api-version=preview"),
        ("/openai", {}, "/openai/responses?api-version=2025-04-01-preview"),
    ],
)
async def test_addresses(server: ModelServer, path: str, config: dict[str, Any], asked: str) -> None:
    """A resource and a whole address are both understood, and the version goes with every request."""
    one = _rig(server, Said(), azure_endpoint=f"{server.url}{path}", **config)
    await _complete(one)
    heard = server.requests[-1]
    assert (heard.path, heard.headers["api-key"]) == (asked, KEY)
    assert heard.json["model"] == "gpt-5.4"


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything can come from the environment, under the published names; the config wins."""
    resource = AzureResource.find({})
    assert (resource.address, resource.api_key) == (
        "https://resource.openai.azure.com/openai",
        "azure-environment-0123456789",
    )
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "https://other.openai.azure.com/openai/v1")
    monkeypatch.setenv("AZURE_OPENAI_KEY", "older")
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "v")
    resource = AzureResource.find({})
    assert (resource.address, resource.api_key, resource.api_version) == (
        "https://other.openai.azure.com/openai/v1",
        "older",
        "v",
    )
    monkeypatch.setenv("AZURE_USE_MANAGED_IDENTITY", "true")
    monkeypatch.setenv("AZURE_MANAGED_IDENTITY_CLIENT_ID", "me")
    resource = AzureResource.find({"base_url": "https://x", "api_version": "w"})
    assert (resource.address, resource.api_version, resource.api_key) == ("https://x/openai", "w", None)
    assert (resource.identity, resource.client_id) == ("managed", "me")
    monkeypatch.delenv("AZURE_USE_MANAGED_IDENTITY")
    monkeypatch.setenv("AZURE_USE_DEFAULT_CREDENTIAL", "1")
    assert AzureResource.find({}).identity == "default"
    assert AzureResource.find({"use_default_credential": False}).identity is None


@pytest.mark.parametrize("name", ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"])
async def test_not_enough(name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without an address or a way to sign in nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv(name)
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {}) is None
    assert name in caplog.text
    assert coordinator.get("providers") == {}


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"use_managed_identity": "perhaps", "max_tokens": 0}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


class _Credential:
    """Sign in as Azure's own library does, which is not installed where tests run."""

    made: list[dict[str, Any]]
    fails = False

    def __init__(self, **options: Any) -> None:
        self.made.append({"kind": type(self).__name__, **options})

    def get_token(self, scope: str) -> Any:
        if self.fails:
            raise RuntimeError("no identity\nfound")
        assert scope == "https://cognitiveservices.azure.com/.default"
        return SimpleNamespace(token=TOKEN)


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> type[_Credential]:
    """Stand in for azure-identity."""
    base = type("Credential", (_Credential,), {"made": []})
    library: Any = ModuleType("azure.identity")
    library.ManagedIdentityCredential = type("Managed", (base,), {})
    library.DefaultAzureCredential = type("Default", (base,), {})
    monkeypatch.setitem(sys.modules, "azure.identity", library)
    return base


@pytest.mark.parametrize(
    ("config", "made"),
    [
        (
            {"use_managed_identity": True, "managed_identity_client_id": "me"},
            {"kind": "Managed", "client_id": "me"},
        ),
        ({"use_default_credential": "true"}, {"kind": "Default", "managed_identity_client_id": None}),
    ],
)
async def test_identities(
    server: ModelServer, identities: type[_Credential], config: dict[str, Any], made: dict[str, Any]
) -> None:
    """An identity takes the place of the key, and its tokens are kept secret like one."""
    one = _rig(server, Said((f"your token is {TOKEN}",)), raw=True, **config)
    await _complete(one)
    assert server.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert "api-key" not in server.requests[-1].headers
    assert identities.made == [made]
    raws = [data for event, data in one.heard if event in ("llm:request", "llm:response")]
    assert TOKEN not in json.dumps(raws)


async def test_an_identity_that_is_none(server: ModelServer, identities: type[_Credential]) -> None:
    """A sign-in that fails is one line, and is not tried again."""
    identities.fails = True
    one = _rig(server, Said(), use_default_credential=True)
    with pytest.raises(AuthenticationError, match="no identity found"):
        await _complete(one)
    assert server.requests == []


async def test_without_the_library(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without azure-identity the error says what to install."""
    monkeypatch.delitem(sys.modules, "azure.identity", raising=False)
    one = _rig(server, Said(), use_managed_identity=True)
    with pytest.raises(ConfigurationError, match="pip install azure-identity"):
        await _complete(one)


async def test_a_deployment_of_any_name(server: ModelServer) -> None:
    """What a deployment can do is learnt from its first answer; its price is that of the model behind it."""
    one = _rig(server, Said(model="gpt-5.4-2026-03-05"), default_deployment="ours")
    assert "thinking" not in one.provider.get_info().capabilities
    response = await _complete(one)
    assert response.usage.cost_usd is not None
    await _complete(one)
    before, after = server.bodies
    assert "include" not in before
    assert after["include"] == ["reasoning.encrypted_content"]
    assert "thinking" in one.provider.get_info().capabilities


async def test_paid_by_the_hour(server: ModelServer) -> None:
    """Tokens of a provisioned deployment have no price, which is not zero."""
    one = _rig(server, Said(model="gpt-5.4"), deployment_type="GlobalProvisionedManaged")
    response = await _complete(one)
    assert response.usage.cost_usd is None
    contributed = one.provider.ledger.contribution()
    assert contributed is not None
    assert contributed["unpriced_models"] == ["gpt-5.4"]


async def test_reasoning_of_openai_is_not_sent_here(server: ModelServer) -> None:
    """Neither service can read what the other encrypted, and neither is told the other's ids."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    content = [
        {"type": "thinking", "thinking": "hm", "content": [item], "origin": "openai"},
        {"type": "text", "text": "a", "openai:item": {"id": "msg_of_openai", "status": "completed"}},
    ]
    one = _rig(server, Said(("b",), ("Hm.",)), Said())
    await _complete(one, "x", {"role": "assistant", "content": content}, "y")
    sent = json.dumps(server.bodies[-1]["input"])
    assert "sealed" not in sent
    assert "msg_of_openai" not in sent


async def test_models_that_azure_says_do_not_talk(server: ModelServer) -> None:
    """What Azure says of a model's abilities is heeded."""
    listed = [
        {"id": name, "object": "model", "created": 1, "owned_by": "azure", "capabilities": {"chat_completion": talks}}
        for name, talks in (("gpt-5.4", True), ("model-x", False))
    ]
    one = _rig(server, Reply.json({"object": "list", "data": listed}))
    assert [model.id for model in await one.provider.list_models()] == ["gpt-5.4"]
    await one.provider.close()


async def test_the_content_filter(server: ModelServer) -> None:
    """What Azure's filter says of a prompt is that error, and not tried again."""
    inner = {"code": "ResponsibleAIPolicyViolation"}
    body = {"error": {"message": "filtered", "code": "content_filter", "innererror": inner}}
    one = _rig(server, Reply.error(400, body))
    with pytest.raises(ContentFilterError):
        await _complete(one)
    assert len(server.requests) == 1


@pytest.mark.parametrize("event", ["context:compaction", "context:pre_compact", "context:post_compact"])
async def test_a_compaction_ends_the_chain(server: ModelServer, event: str) -> None:
    """After a compaction everything is sent once, and then the chain begins anew."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator, {"azure_endpoint": server.url, "api_key": KEY})
    provider = coordinator.get("providers", "azure-openai")
    server.answers(WIRE.reply(Said(("a",))))
    history: list[Any] = ["x"]
    for _ in range(3):
        if len(history) == 3:
            await coordinator.hooks.emit(event, {})
        response = await provider.complete(ask(*history))
        content = [block.model_dump() for block in response.content]
        history += [{"role": "assistant", "content": content, "metadata": response.metadata}, "y"]
    assert [len(body["input"]) for body in server.bodies] == [1, 3, 1]
    assert ["previous_response_id" in body for body in server.bodies] == [False, False, True]
    await cleanup()
    await coordinator.hooks.emit(event, {})
    assert not provider._sends_everything


async def test_what_is_contributed() -> None:
    """The provider tells what a wizard has to ask for, and its default deployment."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    info = coordinator.get("providers", "azure-openai").get_info()
    assert (info.id, info.defaults["model"]) == ("azure-openai", "gpt-5.4")
    assert info.credential_env_vars == ["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_KEY"]
    assert [field.id for field in info.config_fields] == ["azure_endpoint", "api_key", "default_deployment"]
    await cleanup()
