"""An address and a key for every test, and no other part of the environment."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give an address and a key, and let nothing of the machine's own settings in."""
    others = ("BASE_URL", "KEY", "API_VERSION", "AD_TOKEN")
    switches = ("AZURE_USE_MANAGED_IDENTITY", "AZURE_USE_DEFAULT_CREDENTIAL", "AZURE_MANAGED_IDENTITY_CLIENT_ID")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in (*(f"AZURE_OPENAI_{other}" for other in others), *switches, *proxies, "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://resource.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-environment-0123456789")
