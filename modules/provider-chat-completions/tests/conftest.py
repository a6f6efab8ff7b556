"""A server's address for every test, and no other part of the environment."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a server that is not there, and let nothing of the machine's own settings in."""
    for name in ("CHAT_COMPLETIONS_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("CHAT_COMPLETIONS_BASE_URL", "http://127.0.0.1:9")
