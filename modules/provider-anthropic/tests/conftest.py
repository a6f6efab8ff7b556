"""A key for every test, and no other part of the environment."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a key, and let nothing of the machine's own settings in."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-environment-0123456789")
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
