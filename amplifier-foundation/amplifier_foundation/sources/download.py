"""Download single files: through proxies, with private CAs, never from an encrypted to an open connection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import urljoin, urlsplit

from amplifier_foundation.sources.fetched import SourceError, SourceNotFoundError
from amplifier_foundation.sources.uri import without_secrets
from amplifier_kit.guard import network
from amplifier_kit.guard.network import parse_url
from amplifier_kit.threads import in_thread

if TYPE_CHECKING:
    import ssl

    import httpx2

#: How many seconds one attempt may take in all.
TIMEOUT: float = 60.0
#: How many bytes a file may have.
SIZE_LIMIT: int = 256 * 1024 * 1024
#: How long to wait before the second and the third attempt, in seconds.
RETRY_PAUSES: tuple[float, ...] = (1.0, 2.0)
_REDIRECTS: Final = 10
#: Status codes that may be temporary.
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class _PassingError(Exception):
    """A failure that may be temporary."""


async def download(url: str, target: Path, environ: Mapping[str, str]) -> None:
    """Download an http or https URL to a new file.

    Temporary failures are retried, up to three attempts. Raises SourceNotFoundError when the server does not have the
    file, SourceError for all else; the caller removes what a failure leaves.
    """
    import asyncio

    context = await in_thread(lambda: _context(environ)) if url.startswith("https:") else None
    for pause in (*RETRY_PAUSES, None):
        try:
            async with asyncio.timeout(TIMEOUT):
                return await _attempt(url, target, context, environ)
        except TimeoutError as error:
            raise SourceError(f"{without_secrets(url)}: the download took longer than {TIMEOUT:g} s") from error
        except _PassingError as error:
            if pause is None:
                raise SourceError(f"{without_secrets(url)}: {error}") from error
            await asyncio.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


async def _attempt(url: str, target: Path, context: ssl.SSLContext | None, environ: Mapping[str, str]) -> None:
    asked = without_secrets(url)
    for _ in range(_REDIRECTS + 1):
        next_url = await _answer(url, target, context, environ)
        if next_url is None:
            return
        if not next_url.startswith("https://") and (url.startswith("https://") or not next_url.startswith("http://")):
            raise SourceError(
                f"{asked}: the server leads from an encrypted connection to {without_secrets(next_url)}: refused"
            )
        if context is None and next_url.startswith("https://"):
            context = await in_thread(lambda: _context(environ))
        url = next_url
    raise SourceError(f"{asked}: the server leads from one address to the next without end")


async def _answer(url: str, target: Path, context: ssl.SSLContext | None, environ: Mapping[str, str]) -> str | None:
    """Write the answer to the file and return None, or return the address the server points to."""
    import httpx2

    try:
        client = httpx2.AsyncClient(
            verify=context if context is not None else False,  # False only where nothing is encrypted
            proxy=_proxy(url, context, environ),
            timeout=None,  # the attempt as a whole has a deadline
            # The environment was read already, from the mapping that was given.
            trust_env=False,
        )
        async with client, client.stream("GET", url) as response:
            if response.has_redirect_location:
                return urljoin(url, response.headers["location"])
            _check_status(url, response)
            await _save(url, response, target)
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise _transport_failure(url, error) from error
    except (httpx2.InvalidURL, ValueError, ImportError) as error:
        # A proxy of an unknown kind, or of one that needs a package which is not installed.
        raise SourceError(f"{without_secrets(url)}: cannot be asked for: {without_secrets(str(error))}") from error
    return None


def _check_status(url: str, response: httpx2.Response) -> None:
    shown, code = without_secrets(url), response.status_code
    if code == 200:
        return
    said = f"the server answered {code} {response.reason_phrase}".rstrip()
    if code in _PASSING:
        raise _PassingError(said)
    if code in (404, 410):
        raise SourceNotFoundError(f"{shown}: {said}: check the address")
    raise SourceError(f"{shown}: {said}")


async def _save(url: str, response: httpx2.Response, target: Path) -> None:
    size = 0
    try:
        with _create(target) as file:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > SIZE_LIMIT:
                    raise SourceError(
                        f"{without_secrets(url)}: is larger than {SIZE_LIMIT:,} bytes, which is the limit"
                    )
                file.write(chunk)
    except OSError as error:  # of the file: the library wraps those of the connection
        raise SourceError(
            f"{without_secrets(url)}: cannot be saved in {target.parent}: {error.strerror or error}"
        ) from error


def _create(target: Path) -> BinaryIO:
    return open(target, "wb", buffering=0)


def _transport_failure(url: str, error: Exception) -> Exception:
    said = without_secrets(str(error)) or type(error).__name__
    if _is_untrusted_certificate(error):
        return SourceError(
            f"{without_secrets(url)}: the server's certificate is not trusted: {said}. "
            "Next: set SSL_CERT_FILE to the file of the CA that signed it"
        )
    return _PassingError(f"the server cannot be reached: {said}. Next: check the network and HTTPS_PROXY")


def _is_untrusted_certificate(error: BaseException | None) -> bool:
    import ssl

    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _proxy(url: str, context: ssl.SSLContext | None, environ: Mapping[str, str]) -> httpx2.Proxy | None:
    import httpx2

    proxy = proxy_for(url, environ)
    if proxy is None:
        return None
    # A proxy that is itself reached encrypted is trusted on the same grounds as the server.
    return httpx2.Proxy(proxy, ssl_context=context if proxy.startswith("https://") else None)


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment names for a URL, None for none; raises ValueError for an invalid URL."""
    parts = urlsplit(url)
    server = parse_url(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/")
    return network.proxy_for(server, environ)


def _context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS context: with the CAs that the environment names, else with those of the system."""
    import ssl

    import httpx2

    file = environ.get("SSL_CERT_FILE") or None
    folder = environ.get("SSL_CERT_DIR") or None
    if not file and not folder and (bundle := environ.get("REQUESTS_CA_BUNDLE")):
        file, folder = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
    if not file and not folder:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        named = file or folder
        raise SourceError(
            f"{named}: the certificates that SSL_CERT_FILE, SSL_CERT_DIR or REQUESTS_CA_BUNDLE name cannot be read: "
            f"{error.strerror or error}"
        ) from error
