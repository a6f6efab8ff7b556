"""The host's own settings say where packages come from; what is secret in them stays on the host."""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services import host_index
from amplifier_digital_twin.services.host_index import HostIndex, Location

MakeWheel = Callable[..., Path]
Serve = Callable[..., Awaitable[Any]]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment in which nothing of this machine is configured."""
    monkeypatch.setattr(host_index, "_built_in", lambda environ: "https://built-in.example/simple")
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


def urls(index: HostIndex) -> list[tuple[str, str]]:
    """Return the places of an index."""
    return [(place.kind, place.url) for place in index.locations]


async def test_nothing_configured_is_what_is_built_in(host: dict[str, str]) -> None:
    """Without a setting, the index that the installers have built in is used."""
    index = await HostIndex.from_host(host)
    assert urls(index) == [("index", "https://built-in.example/simple")]
    assert index.hosts() == {"built-in.example"}


async def test_built_in_is_asked_for() -> None:
    """uv or pip says which index it has built in; no file of ours names it."""
    found = host_index._built_in({"PATH": os.environ["PATH"]})
    assert found is not None
    assert found.startswith("https://")


async def test_variables_of_pip(host: dict[str, str], tmp_path: Path) -> None:
    """pip's variables count, with several places in one."""
    host |= {
        "PIP_INDEX_URL": "https://main.example:8443/simple/",
        "PIP_EXTRA_INDEX_URL": "https://one.example/simple https://two.example/simple",
        "PIP_FIND_LINKS": f"{tmp_path} https://links.example/page.html",
    }
    index = await HostIndex.from_host(host)
    assert urls(index) == [
        ("links", tmp_path.as_uri()),
        ("links", "https://links.example/page.html"),
        ("index", "https://main.example:8443/simple/"),
        ("index", "https://one.example/simple"),
        ("index", "https://two.example/simple"),
    ]
    assert index.hosts() == {"main.example:8443", "one.example", "two.example", "links.example"}


async def test_files_of_pip(host: dict[str, str], tmp_path: Path) -> None:
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
    index = await HostIndex.from_host(host)
    assert ("index", "https://own.example/simple") in urls(index)
    assert ("index", "https://c.example/s") in urls(index)
    assert not any("system.example" in url for _, url in urls(index))
    host["PIP_INDEX_URL"] = "https://variable.example/simple"
    assert not any("own.example" in url for _, url in urls(await HostIndex.from_host(host)))


async def test_settings_of_uv(host: dict[str, str], tmp_path: Path) -> None:
    """uv's file and variables count; an index that only serves pinned packages does not."""
    del host["UV_NO_CONFIG"]
    file = tmp_path / "uv.toml"
    file.write_text(
        'find-links = ["https://links.example/"]\n'
        '[[index]]\nname = "priv"\nurl = "https://priv.example/simple"\n'
        '[[index]]\nname = "pinned"\nurl = "https://pinned.example/simple"\nexplicit = true\n'
        '[[index]]\nurl = "https://main.example/simple"\ndefault = true\n',
        encoding="utf-8",
    )
    host |= {
        "UV_CONFIG_FILE": str(file),
        "UV_INDEX": "extra=https://extra.example/simple",
        "UV_INDEX_PRIV_USERNAME": "me",
        "UV_INDEX_PRIV_PASSWORD": "p@ss",
    }
    index = await HostIndex.from_host(host)
    assert urls(index) == [
        ("links", "https://links.example/"),
        ("index", "https://main.example/simple"),
        ("index", "https://extra.example/simple"),
        ("index", "https://priv.example/simple"),
    ]
    assert index.locations[3].credentials == ("me", "p@ss")


@pytest.mark.parametrize("name", ["PIP_NO_INDEX", "UV_NO_INDEX"])
async def test_no_index_at_all(host: dict[str, str], tmp_path: Path, name: str) -> None:
    """A host that is told to use no index uses none, only its folders."""
    host |= {name: "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_EXTRA_INDEX_URL": "https://x.example/simple"}
    index = await HostIndex.from_host(host)
    assert urls(index) == [("links", tmp_path.as_uri())]


@pytest.mark.parametrize(("variable", "text"), [("UV_CONFIG_FILE", "= ["), ("PIP_CONFIG_FILE", "no section\n")])
async def test_damaged_settings(host: dict[str, str], tmp_path: Path, variable: str, text: str) -> None:
    """A damaged file is an error that names it, and shows no password of it."""
    host.pop("UV_NO_CONFIG")
    file = tmp_path / "settings"
    file.write_text(f"{text}\nindex-url https://me:secret@x.example/\n", encoding="utf-8")
    with pytest.raises(TwinError) as caught:
        await HostIndex.from_host(host | {variable: str(file)})
    assert caught.value.code == "host_index_invalid"
    assert str(file) in caught.value.message
    assert "secret" not in caught.value.message


async def test_credentials_stay_on_the_host(serve: Serve, world: Any, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """User and password go to the index they are for, and into no page, log, address or description."""
    expected = "Basic " + base64.b64encode(b"me:top-secret").decode()
    world.password = expected
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    address = world.address.replace("http://", "http://me:top-secret@")
    served = await serve({}, f"{address}/simple")
    code, said = await served.install("uv", "helper")
    assert code == 0, said
    page = (await served.get("/simple/helper/"))[2]
    world.status = 403
    failure = (await served.get("/simple/other/"))[2]
    assert set(world.credentials) == {expected}
    everything = [page.decode(), failure.decode(), str(served.decisions()), str(served.index.served), said]
    everything += [path.read_text("latin-1") for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    everything.append(repr(served.index._upstream.locations))
    assert not any("top-secret" in text for text in everything)


async def test_credentials_do_not_follow_redirects(
    serve: Serve, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that leads to another server does not get the password sent there."""
    import socket

    # The other server is on this machine, where no index may lead to.
    monkeypatch.setattr("amplifier_digital_twin.services.link_judge.is_own", lambda address: False)

    from amplifier_digital_twin.services.http_site import HttpSite, plain

    seen: list[str | None] = []

    async def answer(question: Any) -> Any:
        seen.append(question.headers.get("authorization"))
        return plain(404, "unknown")

    site = HttpSite(answer)
    listening = socket.create_server(("127.0.0.1", 0))
    world.redirect = f"http://127.0.0.1:{listening.getsockname()[1]}"
    await site.serve(listening)
    served = await serve({}, world.address.replace("http://", "http://me:top-secret@") + "/simple")
    assert (await served.get("/simple/helper/"))[0] == 404
    await site.close()
    assert world.credentials[0] is not None
    assert seen == [None]


async def test_netrc(host: dict[str, str], tmp_path: Path) -> None:
    """Passwords of the user's netrc are used for the servers they are for."""
    (tmp_path / "home" / ".netrc").write_text("machine a.example login me password word\n", encoding="utf-8")
    (tmp_path / "home" / ".netrc").chmod(0o600)
    host |= {"PIP_INDEX_URL": "https://a.example/simple", "PIP_EXTRA_INDEX_URL": "https://b.example/simple"}
    index = await HostIndex.from_host(host)
    assert [place.credentials for place in index.locations] == [("me", "word"), None]


@pytest.mark.parametrize("client", ["uv", "pip"])
async def test_local_places(serve: Serve, make_wheel: MakeWheel, tmp_path: Path, client: str) -> None:
    """Indexes and pages of links in folders of the host are served like any other, their hashes checked."""
    indexed = make_wheel("indexed", "1.0", folder="index dir/files")
    page = tmp_path / "index dir" / "simple" / "indexed" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../files/{indexed.name}">x</a>', encoding="utf-8")
    linked = make_wheel("linked", "1.0", folder="links")
    make_wheel("linked-more", "1.0", folder="links")
    listed = make_wheel("listed", "1.0", folder="listed")
    links = tmp_path / "links.html"
    links.write_text(f'<a href="{listed.as_uri()}">x</a><a href="{linked.as_uri()}">y</a>', encoding="utf-8")
    served = await serve(
        {},
        (tmp_path / "index dir" / "simple").as_uri(),
        Location.parse("links", str(linked.parent)),
        Location.parse("links", links.as_uri()),
    )
    code, said = await served.install(client, "indexed", "linked", "listed")
    assert code == 0, said
    assert (await served.get("/simple/linked/"))[2].count(b"<a ") == 1
    assert (await served.get("/simple/unknown/"))[0] == 404


async def test_places_are_merged(serve: Serve, world: Any, make_wheel: MakeWheel) -> None:
    """Files of all places are offered together, the same name once."""
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world"), make_wheel("helper", "2.0", folder="world")]
    world.is_html = True
    make_wheel("helper", "2.0", "local", folder="links")
    local = make_wheel("helper", "3.0", folder="links")
    served = await serve({}, Location.parse("links", str(local.parent)), f"{world.address}/simple")
    page = (await served.get("/simple/helper/"))[2]
    assert page.count(b"<a ") == 3
    assert (await served.install("uv", "helper==2.0"))[0] == 0
    assert served.text("helper") == "WHAT = 'local'\n"


async def test_what_is_no_index(serve: Serve, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers with something else, or forbids, is a bad gateway with the reason."""
    world.status = 403
    served = await serve({}, f"{world.address}/simple")
    status, _, body = await served.get("/simple/helper/")
    assert (status, b"403" in body) == (502, True)
