"""Waits, secrets, and slow imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from amplifier_core.llm_errors import ConfigurationError, LLMTimeoutError
from amplifier_kit.llm.client import http_client, import_in_thread, time_limit


async def test_deadlines() -> None:
    """A deadline ends the whole answer for good; none ends nothing; an inner timeout stays what it is."""
    with pytest.raises(LLMTimeoutError, match="longer than") as caught:
        async with time_limit(0.01):
            await asyncio.sleep(30)
    assert not caught.value.retryable
    async with time_limit(None):
        pass
    with pytest.raises(TimeoutError):
        async with time_limit(None):
            raise TimeoutError


async def test_imports_in_a_thread() -> None:
    """A module is imported once, and a missing one says what to install."""
    assert await import_in_thread("json") is sys.modules["json"]
    with pytest.raises(ConfigurationError, match="pip install no-such-sdk"):
        await import_in_thread("no_such_sdk_9", needs="no-such-sdk")


def test_nothing_heavy_is_imported() -> None:
    """The kit itself imports no SDK, no HTTP library, no price list and no schema checker."""
    code = (
        "import sys, amplifier_kit.llm; "
        "print([n for n in ('anthropic','openai','google.genai','ollama','httpx','httpx2','genai_prices','jsonschema',"
        "'pytest') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_http_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is used, but not for this machine; one that cannot be used is an error."""
    monkeypatch.setenv("ALL_PROXY", "nonsense://proxy")
    for name in ("HTTP_PROXY", "http_proxy", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    client = await http_client("http://127.0.0.1:9", timeout=5, idle=2)
    assert (client.timeout.connect, client.timeout.read, client.timeout.write) == (5, 2, 5)
    await client.aclose()
    with pytest.raises(ConfigurationError, match="proxy"):
        await http_client("http://example.com", timeout=5)
    with pytest.raises(ConfigurationError, match="base_url"):
        await http_client("no url", timeout=5)
