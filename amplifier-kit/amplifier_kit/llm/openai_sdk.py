"""The `openai` SDK, which speaks both chat completions and Responses, to OpenAI and to other servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.llm.client import http_client, import_in_thread

#: The key for servers that need no key: the SDK insists on one.
NO_KEY: Final = "not-needed"


def server_url(given: str) -> str:
    """Return a server's address for the SDK: with `/v1` when it has no path, and without the path of the call."""
    url = given.strip().rstrip("/").removesuffix("/chat/completions").rstrip("/")
    _, scheme_end, rest = url.partition("://")
    return f"{url}/v1" if scheme_end and "/" not in rest else url


async def server_client(
    base_url: str,
    *,
    api_key: str | None = None,
    timeout: float = 300.0,
    idle: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Return an `AsyncOpenAI` client that does not retry, for a server other than OpenAI's; close it after use.

    `timeout` limits connecting and sending, `idle` the wait for the next byte. Environment variables for OpenAI's own
    service (key, organization, project, headers) are not sent to this server.
    """
    openai = await import_in_thread("openai")
    http = await http_client(base_url, timeout=timeout, idle=idle)
    key = api_key or NO_KEY
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    custom = [line.partition(":")[0].strip() for line in lines if ":" in line]
    cancelled = {name: f"Bearer {key}" if name.lower() == "authorization" else openai.omit for name in custom}
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
        default_headers={**cancelled, **(headers or {})},
    )
    client.organization = client.project = None
    return client


async def plain_stream(resource: Any, **arguments: Any) -> Any:
    """Return the SDK's stream of `resource.create()` with events as plain JSON; close it after use.

    Validating the SDK's types costs several times as much as the rest of reading a stream. Raises what the SDK raises.
    """
    from openai import AsyncStream

    raw = await resource.with_raw_response.create(**arguments, stream=True)
    return raw.parse(to=AsyncStream[object])


async def list_server_models(client: Any) -> list[dict[str, Any]]:
    """Return the models that a server lists, as mappings."""
    return [listed.model_dump() async for listed in client.models.list()]
