"""Which provider and model a child answers with."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from amplifier_foundation.children.model_roles import best_match, is_protected, with_preference

PLAN: dict[str, Any] = {
    "providers": [
        {"module": "provider-anthropic", "config": {"api_key": "${K}", "default_model": "big", "priority": 0}},
        {"module": "provider-openai", "id": "work", "instance_id": "work", "config": {"base_url": "https://here"}},
        "no entry",
    ]
}


async def _models(entry: Mapping[str, Any]) -> Sequence[str]:
    if entry["module"] == "provider-openai":
        raise TimeoutError("it does not answer")
    return ["claude-haiku-3", "Claude-Haiku-4", "claude-opus-4"]


async def _chosen(*preferences: dict[str, Any]) -> Any:
    return await with_preference(PLAN, preferences, _models)


@pytest.mark.parametrize("name", ["provider-openai", "openai", "work"])
async def test_a_provider_goes_by_module_short_name_or_id(name: str) -> None:
    """The preferred provider gets priority 0 and the model, and nobody stands before it."""
    chosen = await _chosen({"provider": name, "model": "gpt-x"})
    first, second, *_ = chosen.plan["providers"]
    assert second["config"] == {"base_url": "https://here", "priority": 0, "default_model": "gpt-x"}
    assert first["config"]["priority"] == 1
    assert (chosen.provider, chosen.model, chosen.warnings) == ("work", "gpt-x", ())


async def test_a_pattern_means_the_last_model_that_fits_upper_and_lower_case_alike() -> None:
    """`claude-haiku-*` is the newest of that name."""
    chosen = await _chosen({"provider": "anthropic", "model": "CLAUDE-haiku-*"})
    assert chosen.plan["providers"][0]["config"]["default_model"] == "Claude-Haiku-4"
    assert best_match("m-*", ["m-1", "m-3", "m-2", "n"]) == "m-3"
    assert best_match("x*", ["m"]) is None


async def test_a_preference_that_cannot_be_fulfilled_leaves_it_to_the_next() -> None:
    """An unknown provider, a model that does not exist, and a provider that cannot say what it has are passed over."""
    chosen = await _chosen(
        {"provider": "gemini", "model": "x"},
        {"provider": "openai", "model": "gpt-*"},
        {"provider": "anthropic", "model": "none-*"},
        {"provider": "anthropic", "model": "claude-opus-*"},
    )
    assert chosen.model == "claude-opus-4"
    # That there is no such provider is no news when a later preference fits.
    assert len(chosen.warnings) == 2
    assert "does not answer" in chosen.warnings[0]


async def test_when_no_preference_fits_the_plan_stays_and_it_is_said() -> None:
    """Nothing falls back silently."""
    chosen = await _chosen({"provider": "gemini"})
    assert chosen.plan is PLAN
    assert "parent's provider" in chosen.warnings[-1]


async def test_a_preference_cannot_set_where_requests_go_or_with_whose_key() -> None:
    """What comes from a model must not send the user's key to another server."""
    config = {
        "temperature": 0.1,
        "max_tokens": 7,
        "api_key": "theirs",
        "base_url": "https://evil.example",
        "extra": {"http_proxy": "evil", "top_p": 1},
    }
    chosen = await _chosen({"provider": "anthropic", "model": "m", "config": config})
    assert chosen.plan["providers"][0]["config"] == {
        "api_key": "${K}",
        "default_model": "m",
        "priority": 0,
        "temperature": 0.1,
        "max_tokens": 7,
        "extra": {"top_p": 1},
    }
    assert len(chosen.warnings) == 3


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "azure_endpoint",
        "base_url",
        "baseUrl",
        "host",
        "proxies",
        "http-proxy",
        "verify_ssl",
        "ca_bundle_cert",
        "Authorization",
        "extra_headers",
        "auth_token",
        "client_secret",
        "api_token",
        "use_managed_identity",
        "accessKeyId",
        "api_base",
        "inference_gateway",
        "unix_socket",
        "http_client",
        "aws_profile",
        "command",
    ],
)
def test_protected_settings_are_known_by_their_words(name: str) -> None:
    """Credentials, endpoints, proxies and certificates, however they are spelt."""
    assert is_protected(name)


@pytest.mark.parametrize("name", ["temperature", "max_tokens", "prompt_cache_key", "effort", "thinking_budget_tokens"])
def test_other_settings_are_free(name: str) -> None:
    """What a model is asked for may be wished for."""
    assert not is_protected(name)
