"""Certificates and proxies: those that the environment names."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest


async def test_a_private_authority_is_not_trusted_by_itself(world: Any, secure_site: Any) -> None:
    """A certificate that nobody vouches for ends the fetch, with the way to vouch for it."""
    secure_site.text("/x", "x")
    result = await world.fetch(secure_site.url("/x"))
    assert result.error["code"] == "certificate"
    assert "SSL_CERT_FILE" in result.output
    assert secure_site.asked == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_private_authority_can_be_trusted(world: Any, secure_site: Any, authority: Any, variable: str) -> None:
    """The file that the environment names vouches for its servers."""
    world.environ[variable] = str(authority.file)
    secure_site.text("/x", "safe")
    assert (await world.fetch(secure_site.url("/x"))).output["content"] == "safe"


async def test_a_certificate_is_for_its_host(world: Any, secure_site: Any, authority: Any) -> None:
    """The name in the URL is the one that the certificate must have, though the connection is made by address."""
    world.environ["SSL_CERT_FILE"] = str(authority.file)
    secure_site.text("/x", "x")
    result = await world.fetch(secure_site.url("/x", "other.example"))
    assert result.error["code"] == "certificate"


async def test_certificates_that_cannot_be_read(world: Any, secure_site: Any) -> None:
    """A file that is not there is named, and not passed over."""
    world.environ["SSL_CERT_FILE"] = str(world.folder / "missing.pem")
    result = await world.fetch(secure_site.url("/x"))
    assert result.error["code"] == "certificates"
    assert "missing.pem" in result.output


async def test_plain_requests_through_a_proxy(world: Any, site: Any, proxy_to: Callable[[int], Any]) -> None:
    """An http request goes to the proxy as a whole URL, with the proxy's credentials."""
    proxy = proxy_to(site.port)
    world.environ["http_proxy"] = f"http://ada:p%40ss@127.0.0.1:{proxy.port}"
    site.text("/x", "far")
    assert (await world.fetch("http://far.example/x")).output["content"] == "far"
    assert proxy.asked == ["GET http://far.example/x HTTP/1.1"]
    secret = base64.b64encode(b"ada:p@ss")
    assert any(line.strip() == b"Proxy-Authorization: Basic " + secret for line in proxy.headers)
    assert site.headers[0]["Host"] == "far.example"


async def test_encrypted_requests_through_a_proxy(
    world: Any, secure_site: Any, authority: Any, proxy_to: Callable[[int], Any]
) -> None:
    """An https request goes through a tunnel, encrypted up to the server."""
    proxy = proxy_to(secure_site.port)
    world.environ.update(HTTPS_PROXY=f"127.0.0.1:{proxy.port}", SSL_CERT_FILE=str(authority.file))
    secure_site.text("/x", "far")
    assert (await world.fetch("https://site.example/x")).output["content"] == "far"
    assert proxy.asked == ["CONNECT site.example:443 HTTP/1.1"]


async def test_exempt_hosts_are_reached_directly(world: Any, site: Any, proxy_to: Callable[[int], Any]) -> None:
    """What no_proxy names does not go to the proxy."""
    proxy = proxy_to(site.port)
    world.environ.update(http_proxy=f"http://127.0.0.1:{proxy.port}", no_proxy="site.example")
    site.text("/x", "near")
    assert (await world.fetch(site.url("/x"))).output["content"] == "near"
    assert proxy.asked == []


@pytest.mark.parametrize("host", ["10.0.0.1", "[::1]", "169.254.169.254", "inside.example"])
async def test_a_proxy_is_no_way_around_the_guard(
    world: Any, site: Any, proxy_to: Callable[[int], Any], host: str
) -> None:
    """Addresses, and names whose addresses this machine knows, are judged before the proxy hears of them."""
    proxy = proxy_to(site.port)
    world.environ["http_proxy"] = f"http://127.0.0.1:{proxy.port}"
    world.names["inside.example"] = [["10.0.0.7"]]
    assert (await world.fetch(f"http://{host}/x")).error["code"] == "address_refused"
    assert proxy.asked == []


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "http://127.1:80", "ftp://proxy.example"])
async def test_proxies_that_cannot_be_used(world: Any, site: Any, proxy: str) -> None:
    """A proxy of another kind, or one whose host can be misread, is an error and not passed over."""
    world.environ["all_proxy"] = proxy
    assert (await world.fetch(site.url("/x"))).error["code"] == "proxy"
    assert site.asked == []


async def test_a_proxy_that_is_not_there(world: Any, site: Any) -> None:
    """A proxy that does not answer is a failure: nothing goes around it."""
    site.close()
    world.environ["http_proxy"] = f"http://127.0.0.1:{site.port}"
    assert (await world.fetch("http://site.example/x")).error["code"] == "unreachable"
