"""Clients of model services: SDKs imported on first use, HTTP clients for them, HTTP responses, the `openai` SDK."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from amplifier_core.llm_errors import ConfigurationError, LLMTimeoutError


async def import_in_thread(name: str, *, needs: str | None = None) -> ModuleType:
    """Return a module; the first import runs in a thread, since SDKs take a second and more.

    Raises ConfigurationError when the module is missing; its text names the distribution to install, `needs`.
    """
    known = sys.modules.get(name)
    if known is not None and not getattr(getattr(known, "__spec__", None), "_initializing", False):
        return known
    try:
        return await asyncio.to_thread(import_module, name)
    except ModuleNotFoundError as error:
        package = needs or name.partition(".")[0]
        raise ConfigurationError(f"the package {package!r} is not installed: run `pip install {package}`") from error


# -- HTTP clients --


async def http_client(base_url: str, *, timeout: float, idle: float | None = None, **options: Any) -> Any:
    """Return a new `httpx2.AsyncClient` for a service, with only proxy and certificates from the environment.

    `timeout` bounds connecting and sending, `idle` the wait for the next byte. A service on this machine is reached
    directly, whatever proxy the environment names; raises ConfigurationError for a proxy that cannot be used.
    """
    httpx2 = await import_in_thread("httpx2")
    with proxy_errors():
        return httpx2.AsyncClient(**http_options(httpx2, base_url, timeout=timeout, idle=idle), **options)


def http_options(library: Any, base_url: str, *, timeout: float, idle: float | None = None) -> dict[str, Any]:
    """Return the options of `http_client`, for SDKs that create clients themselves; `library` is `httpx2` or `httpx`.

    Create such an SDK's client inside `proxy_errors`.
    """
    verify: Any = base_url.startswith("https:")
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if verify and (file or folder):
        import ssl

        verify = ssl.create_default_context(cafile=file or None, capath=folder or None)
    return {
        "timeout": library.Timeout(timeout, connect=min(timeout, 30.0), read=idle or timeout, pool=None),
        "trust_env": False,
        "proxy": _proxy(base_url),
        "verify": verify,
        "limits": library.Limits(max_connections=None, max_keepalive_connections=20),
    }


def _proxy(base_url: str) -> str | None:
    from amplifier_kit.guard.network import MalformedError, parse_url, proxy_for

    try:
        target = parse_url(base_url)
    except MalformedError as error:
        raise ConfigurationError(f"invalid base_url {base_url!r}: {error}") from error
    if target.host == "localhost" or target.host.startswith("127.") or target.host in ("::1", "[::1]"):
        return None
    return proxy_for(target, os.environ)


@contextmanager
def proxy_errors() -> Iterator[None]:
    """Turn errors of an HTTP library about an unusable proxy into ConfigurationError."""
    try:
        yield
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"invalid proxy in the environment: {error}. Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        ) from error


# -- the HTTP responses behind an SDK's call --


class CapturedResponses:
    def __init__(self) -> None:
        self.responses: list[Any] = []

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the last response; empty without a response."""
        return dict(self.responses[-1].headers) if self.responses else {}


_captured: ContextVar[CapturedResponses | None] = ContextVar("captured_responses", default=None)


@asynccontextmanager
async def capture_responses() -> AsyncIterator[CapturedResponses]:
    """Capture the HTTP responses of calls inside the block, and close them at its end.

    Leaving the iteration of a stream early closes only the outermost of an SDK's generators; the connection would stay
    open until the others are collected. The client must have `record_response` among its hooks.
    """
    captured = CapturedResponses()
    token = _captured.set(captured)
    try:
        yield captured
    finally:
        _captured.reset(token)
        for response in captured.responses:
            await response.aclose()


async def record_response(response: Any) -> None:
    """Record a response: a hook for `event_hooks={"response": [record_response]}` of `httpx` and `httpx2`."""
    captured = _captured.get()
    if captured is not None:
        captured.responses.append(response)


@asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncIterator[None]:
    """Limit the time of a whole answer, without a retry: raises LLMTimeoutError. None means no limit."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if seconds is None:
            raise
        raise LLMTimeoutError(f"the answer took longer than its limit of {seconds:g} s", retryable=False) from error


# -- the `openai` SDK, which speaks both chat completions and Responses, to OpenAI and to other servers --

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
