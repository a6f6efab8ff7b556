"""A key for every test, and no other part of the environment."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a key, and let nothing of the machine's own settings in."""
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "GEMINI_")) or name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-environment-0123456789")
