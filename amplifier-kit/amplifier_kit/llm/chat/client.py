"""The SDK's client for a server that is not OpenAI's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.llm.imports import http_client, imported

__all__ = ["NO_KEY", "chat_client", "server_url"]

#: What the SDK sends as a key to servers that ask for none; it insists on one.
NO_KEY: Final = "not-needed"

_ENDPOINT: Final = "/chat/completions"


def server_url(given: str) -> str:
    """Return the address that the SDK wants: with `/v1` where no path is given, and without the path of the call."""
    url = given.strip().rstrip("/").removesuffix(_ENDPOINT).rstrip("/")
    _, mark, rest = url.partition("://")
    return f"{url}/v1" if mark and "/" not in rest else url


async def chat_client(
    base_url: str,
    *,
    api_key: str | None = None,
    timeout: float = 300.0,
    idle: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Return an `AsyncOpenAI` client for the server at `base_url`, without retries of its own; close it after use.

    `timeout` bounds connecting and sending, `idle` the wait for the next byte. What the environment holds for OpenAI's
    own service (key, organization, project, headers) is not sent to this one.
    """
    openai = await imported("openai")
    http = await http_client(base_url, timeout=timeout, idle=idle)
    key = api_key or NO_KEY
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
        default_headers={**_unwanted(openai.omit, key), **(headers or {})},
    )
    client.organization = client.project = None
    return client


def _unwanted(omit: Any, key: str) -> dict[str, Any]:
    """Return the headers that the SDK takes from the environment, made void."""
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    return {name: f"Bearer {key}" if name.lower() == "authorization" else omit for name in names}
