"""No part of the machine's own settings."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the environment in."""
    for name in list(os.environ):
        if name.startswith("OLLAMA_") or name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name)
