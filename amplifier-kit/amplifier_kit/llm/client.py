"""Clients of model services: SDKs imported on first use without blocking the event loop, and HTTP clients for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from amplifier_core.llm_errors import ConfigurationError

__all__ = ["http_client", "http_options", "import_in_thread", "proxy_errors"]


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
    import os

    return {
        "timeout": library.Timeout(timeout, connect=min(timeout, 30.0), read=idle or timeout, pool=None),
        "trust_env": False,
        "proxy": _proxy(base_url, os.environ),
        "verify": _certificates(os.environ) if base_url.startswith("https:") else False,
        "limits": library.Limits(max_connections=None, max_keepalive_connections=20),
    }


@contextmanager
def proxy_errors() -> Iterator[None]:
    """Turn errors of an HTTP library about an unusable proxy into ConfigurationError."""
    try:
        yield
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"invalid proxy in the environment: {error}. Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        ) from error


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
