"""Encrypted connections with a private CA, and proxies: for downloads, archives and git."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]
ProxyTo = Callable[[Any], Any]


@pytest.fixture
def sources(secure_server: Any, repository: Any) -> dict[str, str]:
    """Return a source of each kind at the https server."""
    folder: Path = secure_server.folder
    (folder / "b.md").write_bytes(b"hello")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("bundle.md", "hello")
    repository.git("clone", "--quiet", "--bare", ".", str(folder / "r"))
    repository.git("-C", str(folder / "r"), "update-server-info")
    at = f"127.0.0.1:{secure_server.port}"
    return {"http": f"https://{at}/b.md", "zip": f"zip+https://{at}/a.zip", "git": f"git+https://{at}/r@main"}


@pytest.mark.parametrize("kind", ["http", "zip", "git"])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_private_ca_is_honoured(
    home: Home, environ: Environ, authority: Any, sources: dict[str, str], kind: str, variable: str
) -> None:
    """With the variable that names the CA's file, all kinds of sources are fetched from its servers."""
    environ[variable] = str(authority.file)
    fetcher = Fetcher(home, environ=environ)

    fetched = await fetcher.fetch(sources[kind])

    assert fetched.kind == kind
    assert fetched.path.exists()
    assert fetcher.warnings == []


async def test_git_s_own_variable_for_the_ca(
    home: Home, environ: Environ, authority: Any, sources: dict[str, str]
) -> None:
    """What is set for git alone is honoured by git."""
    environ["GIT_SSL_CAINFO"] = str(authority.file)

    assert (await Fetcher(home, environ=environ).fetch(sources["git"])).commit


@pytest.mark.parametrize("kind", ["http", "zip", "git"])
async def test_an_unknown_ca_is_refused_at_once(
    home: Home, environ: Environ, secure_server: Any, sources: dict[str, str], kind: str
) -> None:
    """A certificate nobody vouches for is an error that names the variable to set; nothing is asked for."""
    with pytest.raises(SourceError, match=r"certificate.*Next: set .*SSL_CERT_FILE"):
        await Fetcher(home, environ=environ).fetch(sources[kind])

    assert secure_server.asked == []


@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_a_ca_file_that_cannot_be_read_is_named(
    home: Home, environ: Environ, tmp_path: Path, sources: dict[str, str], content: bytes | None
) -> None:
    """A variable that names no certificates is an error, not a connection without them."""
    file = tmp_path / "none.pem"
    if content is not None:
        file.write_bytes(content)
    environ["SSL_CERT_FILE"] = str(file)

    with pytest.raises(SourceError, match=r"none\.pem: the certificates that SSL_CERT_FILE"):
        await Fetcher(home, environ=environ).fetch(sources["http"])


async def test_from_encrypted_to_open_is_refused(
    home: Home, environ: Environ, authority: Any, secure_server: Any, server: Any, sources: dict[str, str]
) -> None:
    """A server that leads from https to http is not followed: neither by a download nor by git."""
    environ["SSL_CERT_FILE"] = str(authority.file)
    secure_server.answers["/x.md"] = [(302, {"Location": f"{server.url}/b.md"}, b"")]
    moved = "/moved/info/refs?service=git-upload-pack"
    secure_server.answers[moved] = [(301, {"Location": f"{server.url}/r/info/refs?service=git-upload-pack"}, b"")]
    fetcher = Fetcher(home, environ=environ)

    with pytest.raises(SourceError, match=r"from an encrypted connection to http://.*refused"):
        await fetcher.fetch(f"{secure_server.url}/x.md")
    with pytest.raises(SourceError, match="git could not fetch it"):
        await fetcher.fetch(f"git+{secure_server.url}/moved")

    assert moved in secure_server.asked
    assert server.asked == []


@pytest.mark.parametrize("kind", ["http", "zip", "git"])
async def test_a_proxy_is_used_for_encrypted_connections(
    home: Home,
    environ: Environ,
    authority: Any,
    secure_server: Any,
    sources: dict[str, str],
    proxy_to: ProxyTo,
    kind: str,
) -> None:
    """A host that only the proxy knows is reached through it, encrypted all the way."""
    proxy = proxy_to(secure_server)
    environ |= {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(authority.file)}
    uri = sources[kind].replace(f"127.0.0.1:{secure_server.port}", "files.example")

    fetched = await Fetcher(home, environ=environ).fetch(uri)

    assert fetched.path.exists()
    assert {line.rpartition(" ")[0] for line in proxy.asked} == {"CONNECT files.example:443"}


@pytest.mark.parametrize("kind", ["http", "zip", "git"])
async def test_a_proxy_is_used_for_open_connections(
    home: Home, environ: Environ, server: Any, sources: dict[str, str], proxy_to: ProxyTo, kind: str
) -> None:
    """HTTP_PROXY is honoured for http, by git too."""
    proxy = proxy_to(server)
    environ["HTTP_PROXY"] = proxy.url
    scheme, _, rest = sources[kind].partition("://")
    uri = f"{scheme.removesuffix('s')}://files.example/{rest.partition('/')[2]}"

    fetched = await Fetcher(home, environ=environ).fetch(uri)

    assert fetched.path.exists()
    assert all(line.startswith("GET http://files.example/") for line in proxy.asked)
    assert proxy.asked
