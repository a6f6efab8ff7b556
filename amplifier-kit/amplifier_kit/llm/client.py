"""Import what is slow to import, when it is needed and without holding up the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from amplifier_core.llm_errors import ConfigurationError

__all__ = ["http_client", "http_options", "imported", "proxy_faults"]


async def imported(name: str, *, needs: str | None = None) -> ModuleType:
    """Return a module, imported in a thread the first time; SDKs take a second and more.

    Raises ConfigurationError that names the distribution `needs` when it is not installed.
    """
    known = sys.modules.get(name)
    if known is not None and not getattr(getattr(known, "__spec__", None), "_initializing", False):
        return known
    try:
        return await asyncio.to_thread(import_module, name)
    except ModuleNotFoundError as error:
        package = needs or name.partition(".")[0]
        raise ConfigurationError(f"the package {package!r} is not installed: run `pip install {package}`") from error


async def http_client(base_url: str, *, timeout: float, idle: float | None = None, **options: Any) -> Any:
    """Return a new `httpx2.AsyncClient` for a service: proxy and certificates from the environment, no more of it.

    `timeout` bounds connecting and sending, `idle` the wait for the next byte. A service on this machine is reached
    directly, whatever proxy the environment names; raises ConfigurationError for a proxy that cannot be used.
    """
    httpx2 = await imported("httpx2")
    with proxy_faults():
        return httpx2.AsyncClient(**http_options(httpx2, base_url, timeout=timeout, idle=idle), **options)


def http_options(library: Any, base_url: str, *, timeout: float, idle: float | None = None) -> dict[str, Any]:
    """Return what `http_client` makes its client with, for SDKs that make their own; `library` is `httpx2` or `httpx`.

    Such an SDK's client is made inside `proxy_faults`.
    """
    import os

    return {
        "timeout": library.Timeout(timeout, connect=min(timeout, 30.0), read=idle or timeout, pool=None),
        "trust_env": False,
        "proxy": _proxy(base_url, os.environ),
        "verify": _certificates(os.environ) if base_url.startswith("https:") else False,
        "limits": library.Limits(max_connections=None, max_keepalive_connections=20),
    }


@contextmanager
def proxy_faults() -> Iterator[None]:
    """Turn what an HTTP library says of a proxy that it cannot use into ConfigurationError."""
    try:
        yield
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"the proxy of the environment cannot be used: {error}") from error


def _proxy(base_url: str, environ: Any) -> str | None:
    from amplifier_kit.guard.network.hosts import MalformedError
    from amplifier_kit.guard.network.urls import parse_url, proxy_for

    try:
        target = parse_url(base_url)
    except MalformedError as error:
        raise ConfigurationError(f"invalid base_url {base_url!r}: {error}") from error
    if target.host == "localhost" or target.host.startswith("127.") or target.host in ("::1", "[::1]"):
        return None
    return proxy_for(target, environ)


def _certificates(environ: Any) -> Any:
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return True
    import ssl

    return ssl.create_default_context(cafile=file or None, capath=folder or None)
