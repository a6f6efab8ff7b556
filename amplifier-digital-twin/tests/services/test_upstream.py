"""The host's settings say where packages come from; what is secret in them stays here, and pages lead nowhere else."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services import upstream
from amplifier_digital_twin.services.upstream import CheckedTransport, Location, Upstream, UpstreamError, parse_page
from amplifier_kit.guard.network import Endpoint
from amplifier_kit.guard.ssrf import AddressRefusedError


@pytest.fixture
def host(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which nothing of this machine is configured."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "XDG_CONFIG_DIRS": str(tmp_path / "xdg"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_CONFIG": "1",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }


def urls(index: Upstream) -> list[tuple[bool, str]]:
    """Return the places of an index, and whether they are flat."""
    return [(place.is_flat, place.url) for place in index.locations]


def test_nothing_configured_is_what_is_built_in(host: dict[str, str]) -> None:
    """Without a setting, the index that uv has built in is used; no file of ours names it."""
    ((is_flat, url),) = urls(Upstream.of_host(host))
    assert (is_flat, url.startswith("https://")) == (False, True)


def test_variables_of_pip(host: dict[str, str], tmp_path: Path) -> None:
    """pip's variables count, with several places in one."""
    host |= {
        "PIP_INDEX_URL": "https://main.example:8443/simple/",
        "PIP_EXTRA_INDEX_URL": "https://one.example/simple https://two.example/simple",
        "PIP_FIND_LINKS": f"{tmp_path} https://links.example/page.html",
    }
    assert urls(Upstream.of_host(host)) == [
        (True, tmp_path.as_uri()),
        (True, "https://links.example/page.html"),
        (False, "https://main.example:8443/simple/"),
        (False, "https://one.example/simple"),
        (False, "https://two.example/simple"),
    ]


def test_files_of_pip(host: dict[str, str], tmp_path: Path) -> None:
    """pip's files count, the user's over the system's, a variable over both; a byte order mark does no harm."""
    del host["PIP_CONFIG_FILE"]
    system, own = tmp_path / "xdg" / "pip", tmp_path / "home" / "config" / "pip"
    for folder in (system, own):
        folder.mkdir(parents=True)
    # Set here, so that a file of this machine that says otherwise does not count.
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "pip.conf").write_text(
        "[global]\nextra-index-url =\n  https://c.example/s\n", encoding="utf-8"
    )
    (system / "pip.conf").write_text("[global]\nindex-url = https://system.example/simple\n", encoding="utf-8")
    (own / "pip.conf").write_bytes(b"\xef\xbb\xbf[global]\r\nindex_url = https://own.example/simple\r\n")
    host["PIP_FIND_LINKS"] = str(tmp_path)
    found = urls(Upstream.of_host(host))
    assert {(False, "https://own.example/simple"), (False, "https://c.example/s")} <= set(found)
    assert not any("system.example" in url for _, url in found)
    host["PIP_INDEX_URL"] = "https://variable.example/simple"
    assert not any("own.example" in url for _, url in urls(Upstream.of_host(host)))


def test_settings_of_uv(host: dict[str, str], tmp_path: Path) -> None:
    """uv's file and variables count; an index that only serves pinned packages does not."""
    del host["UV_NO_CONFIG"]
    file = tmp_path / "uv.toml"
    file.write_text(
        'find-links = ["https://links.example/"]\n'
        '[[index]]\nname = "priv"\nurl = "https://me:p%40ss@priv.example/simple"\n'
        '[[index]]\nname = "pinned"\nurl = "https://pinned.example/simple"\nexplicit = true\n'
        '[[index]]\nurl = "https://main.example/simple"\ndefault = true\n',
        encoding="utf-8",
    )
    host |= {
        "UV_CONFIG_FILE": str(file),
        "UV_INDEX": "extra=https://extra.example/simple",
    }
    index = Upstream.of_host(host)
    assert urls(index) == [
        (True, "https://links.example/"),
        (False, "https://main.example/simple"),
        (False, "https://extra.example/simple"),
        (False, "https://priv.example/simple"),
    ]
    assert index.locations[3].credentials == ("me", "p@ss")


@pytest.mark.parametrize("name", ["PIP_NO_INDEX", "UV_NO_INDEX"])
def test_no_index_at_all(host: dict[str, str], tmp_path: Path, name: str) -> None:
    """A host that is told to use no index uses none, only its directories."""
    host |= {name: "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_EXTRA_INDEX_URL": "https://x.example/simple"}
    assert urls(Upstream.of_host(host)) == [(True, tmp_path.as_uri())]


@pytest.mark.parametrize(("variable", "text"), [("UV_CONFIG_FILE", "= ["), ("PIP_CONFIG_FILE", "no section\n")])
def test_damaged_settings(host: dict[str, str], tmp_path: Path, variable: str, text: str) -> None:
    """A damaged file is an error that names it, and shows no password of it."""
    host.pop("UV_NO_CONFIG")
    file = tmp_path / "settings"
    file.write_text(f"{text}\nindex-url https://me:secret@x.example/\n", encoding="utf-8")
    with pytest.raises(TwinError) as caught:
        Upstream.of_host(host | {variable: str(file)})
    assert caught.value.code == "host_index_invalid"
    assert str(file) in caught.value.message
    assert "secret" not in caught.value.message


def test_netrc(host: dict[str, str], tmp_path: Path) -> None:
    """Passwords of the user's netrc are used for the servers they are for."""
    (tmp_path / "home" / ".netrc").write_text("machine a.example login me password word\n", encoding="utf-8")
    (tmp_path / "home" / ".netrc").chmod(0o600)
    host |= {"PIP_INDEX_URL": "https://a.example/simple", "PIP_EXTRA_INDEX_URL": "https://b.example/simple"}
    assert [place.credentials for place in Upstream.of_host(host).locations] == [("me", "word"), None]


async def test_credentials_stay_on_the_host(start: Any, world: Any, make_wheel: Any) -> None:
    """User and password go to the index they are for, and into no page, log, cache or error."""
    world.files["helper"] = [make_wheel("helper", "1.0")]
    address = world.address.replace("http://", "http://me:top-secret@")
    universe = await start(f"{address}/simple")
    code, said = await universe.install("uv", "helper")
    assert code == 0, said
    world.status = 403
    texts = [said, str(await universe.get("/simple/other/")), str(await universe.get("/simple/helper/"))]
    assert set(world.credentials) == {"Basic " + base64.b64encode(b"me:top-secret").decode()}
    folders = (universe.config.cache, universe.path.parent)
    texts += [path.read_text("latin-1") for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert not any("top-secret" in text for text in texts)


@pytest.fixture
async def hostile(tmp_path: Path, serve_app: Any) -> AsyncIterator[tuple[Upstream, list[str]]]:
    """Make an index whose pages name a file of this machine and services on it; give what those were asked."""
    secret = tmp_path / "secret"
    secret.write_text("of the host", encoding="utf-8")
    asked: list[str] = []

    async def private(request: Asked) -> Response:
        asked.append(request.url.path)
        return PlainTextResponse("private")

    async with serve_app(Starlette(routes=[Route("/{path:path}", private)])) as other:

        async def answer(request: Asked) -> Response:
            if request.url.path == "/away":
                return Response(status_code=302, headers={"Location": f"{other}/metadata"})
            links = [secret.as_uri(), f"{other}/evil-1.0.tar.gz", "/away"]
            page = "".join(f'<a href="{link}">evil-{number}.0.tar.gz</a>' for number, link in enumerate(links))
            return Response(page, media_type="text/html")

        async with serve_app(Starlette(routes=[Route("/{path:path}", answer)])) as address:
            index = Upstream([Location.parse(f"{address}/simple", {})], {})
            yield index, asked
            await index.close()


async def test_pages_lead_to_nothing_of_this_machine(hostile: tuple[Upstream, list[str]]) -> None:
    """A page of the web names no file of this machine, and neither its links nor redirects lead to its services."""
    index, asked = hostile
    files = await index.page("evil")
    assert [file["url"].partition(":")[0] for file in files] == ["http", "http"]
    for file in files:
        with pytest.raises(UpstreamError, match="of this machine"):
            async with index.open(file["url"]):
                pass
    assert asked == []


@pytest.mark.parametrize("private", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "fe80::1", "0.0.0.0"])
async def test_public_index_leads_to_the_internet_only(private: str) -> None:
    """An index of the internet leads to no private or special address."""
    transport = CheckedTransport([Endpoint("93.184.216.34", 443)], ssl.create_default_context())
    with pytest.raises(AddressRefusedError):
        await transport.addresses(Endpoint(private, 443))
    assert await transport.addresses(Endpoint("93.184.216.35", 8443)) == ["93.184.216.35"]


async def test_private_index_leads_to_neighbours() -> None:
    """An index of a private network may lead to its neighbours, and still not where clouds hand out credentials."""
    transport = CheckedTransport([Endpoint("10.9.8.7", 80)], ssl.create_default_context())
    assert await transport.addresses(Endpoint("10.9.8.8", 80)) == ["10.9.8.8"]
    with pytest.raises(AddressRefusedError):
        await transport.addresses(Endpoint("169.254.169.254", 80))


async def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is what is connected to, and many requests at once ask the resolver one question."""
    asked: list[str] = []

    async def answer(name: str) -> list[str]:
        asked.append(name)
        await asyncio.sleep(0.01)
        return ["93.184.216.34"]

    monkeypatch.setattr(upstream, "resolve", answer)
    transport = CheckedTransport([Endpoint("index.example", 443)], ssl.create_default_context())
    await asyncio.gather(*(transport.addresses(Endpoint("index.example", 443)) for _ in range(20)))
    assert asked == ["index.example"]


def test_credentials_are_for_one_server() -> None:
    """A password is sent to the very server it was given for, the nearer one where a server has several indexes."""
    places = [Location.parse(f"https://{user}:pw@a.example/{user}/simple", {}) for user in ("one", "two")]
    index = Upstream(places, {})
    assert index._credentials("https://a.example/two/files/x") == ("two", "pw")
    for other in ("https://b.example/two/x", "http://a.example/two/x", "https://a.example:444/two/x"):
        assert index._credentials(other) is None


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        *((b"{}", "application/json"), (b"[]", "application/json"), (b"x", "image/png")),
        *((b'{"meta": {"api-version": "2.0"}, "files": []}', "application/json"), (b"\xff{", "application/json")),
    ],
)
def test_invalid_pages(content: bytes, kind: str) -> None:
    """What is not a page of a package index, or of a version to come, is an error that names the address."""
    with pytest.raises(UpstreamError, match=r"index\.example"):
        parse_page(content, kind, "https://index.example/simple/x/")


def test_html_pages() -> None:
    """Relative links, a base, escapes, hashes and attributes are understood."""
    page = (
        '<base href="/files/"><a href="a-1.0%2Bx.tar.gz#sha256=AB12" data-requires-python="&gt;=3">a</a>'
        '<a href="https://b.example/b-1.0-py3-none-any.whl#egg=b" data-yanked data-core-metadata="sha256=cd">b</a>'
        "<a>none</a><a href='/'>none</a>"
    )
    assert parse_page(page.encode(), "text/html; charset=utf-8", "https://a.example/simple/a/") == [
        {
            "filename": "a-1.0+x.tar.gz",
            "url": "https://a.example/files/a-1.0%2Bx.tar.gz",
            "hashes": {"sha256": "ab12"},
            "requires-python": ">=3",
        },
        {
            "filename": "b-1.0-py3-none-any.whl",
            "url": "https://b.example/b-1.0-py3-none-any.whl",
            "hashes": {},
            "yanked": True,
            "core-metadata": {"sha256": "cd"},
        },
    ]
