"""Downloads over http, from a real server on this machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources import download
from amplifier_foundation.sources.content import META_NAME
from amplifier_foundation.sources.download import proxy_for
from amplifier_foundation.sources.fetched import SourceError, SourceNotFoundError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]


@pytest.fixture
def fetcher(home: Home, environ: Environ) -> Fetcher:
    return Fetcher(home, environ=environ)


def kept(home: Home) -> list[str]:
    return [path.name for path in home.cache.iterdir() if not path.name.endswith(".lock")]


async def test_a_file_keeps_its_name(fetcher: Fetcher, home: Home, server: Any) -> None:
    """The downloaded file is called as at its server, alone in a folder, so that its suffix says what it is."""
    (server.folder / "my bundle.md").write_bytes(b"\xef\xbb\xbfhello\r\n")

    fetched = await fetcher.fetch(f"{server.url}/my%20bundle.md?raw=1")

    assert fetched.path.name == "my-bundle.md"
    assert fetched.path.read_bytes() == b"\xef\xbb\xbfhello\r\n"
    assert fetched.root == fetched.path.parent
    assert fetched.root.parent == home.cache
    assert {path.name for path in fetched.root.iterdir()} == {"my-bundle.md", META_NAME}
    assert (fetched.kind, fetched.commit, len(fetched.sha256 or "")) == ("http", None, 64)
    assert server.asked == ["/my%20bundle.md?raw=1"]


async def test_it_is_downloaded_once_and_anew_on_request(home: Home, environ: Environ, server: Any) -> None:
    """The cache is used until somebody asks for the file anew."""
    url = f"{server.url}/b.yaml"
    (server.folder / "b.yaml").write_bytes(b"1")
    await Fetcher(home, environ=environ).fetch(url)
    (server.folder / "b.yaml").write_bytes(b"2")

    assert (await Fetcher(home, environ=environ).fetch(url)).path.read_bytes() == b"1"
    assert (await Fetcher(home, environ=environ, refresh=True).fetch(url)).path.read_bytes() == b"2"
    assert len(server.asked) == 2


async def test_an_open_connection_is_a_warning(fetcher: Fetcher, server: Any) -> None:
    """What came without encryption is used, and the user hears of it."""
    (server.folder / "b.md").write_bytes(b"")

    await fetcher.fetch(f"{server.url}/b.md")

    assert ["was fetched without encryption" in warning for warning in fetcher.warnings] == [True]


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_what_can_pass_is_tried_again(fetcher: Fetcher, server: Any, status: int) -> None:
    """A server that is busy twice is asked a third time."""
    server.answers["/b.md"] = [(status, {}, b""), (status, {}, b"half"), (200, {}, b"whole")]

    fetched = await fetcher.fetch(f"{server.url}/b.md")

    assert fetched.path.read_bytes() == b"whole"
    assert len(server.asked) == 3


async def test_a_server_that_stays_down_is_reported(fetcher: Fetcher, home: Home, server: Any) -> None:
    """After three attempts the last failure is reported, and nothing is kept."""
    server.answers["/b.md"] = [(503, {}, b"")]

    with pytest.raises(SourceError, match="answered 503"):
        await fetcher.fetch(f"{server.url}/b.md")

    assert len(server.asked) == 3
    assert kept(home) == []


async def test_a_connection_that_breaks_off_is_no_download(fetcher: Fetcher, server: Any) -> None:
    """Fewer bytes than were announced are never taken for the file."""
    server.answers["/b.md"] = [(200, {"Content-Length": "100"}, b"half"), (200, {}, b"whole")]

    assert (await fetcher.fetch(f"{server.url}/b.md")).path.read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("status", "kind"), [(404, SourceNotFoundError), (410, SourceNotFoundError), (403, SourceError)]
)
async def test_what_stays_is_tried_once(fetcher: Fetcher, server: Any, status: int, kind: type[SourceError]) -> None:
    """A file that is not there or not allowed is reported at once."""
    server.answers["/b.md"] = [(status, {}, b"")]

    with pytest.raises(kind, match=f"answered {status}") as caught:
        await fetcher.fetch(f"{server.url}/b.md")

    assert type(caught.value) is kind
    assert len(server.asked) == 1


async def test_a_server_that_is_not_there(home: Home, environ: Environ, server: Any) -> None:
    """A refused connection is an error that says what to look at."""
    with pytest.raises(SourceError, match=r"cannot be reached.*check the network and HTTPS_PROXY"):
        await Fetcher(home, environ=environ).fetch("http://127.0.0.1:1/b.md")


async def test_redirects_are_followed_and_end(fetcher: Fetcher, server: Any) -> None:
    """A file that moved is found, relative addresses included; a circle is an error."""
    server.answers["/old.md"] = [(302, {"Location": "/new?x=1"}, b"")]
    server.answers["/new?x=1"] = [(200, {}, b"here")]
    server.answers["/round.md"] = [(301, {"Location": "/round.md"}, b"")]

    fetched = await fetcher.fetch(f"{server.url}/old.md")

    assert (fetched.path.name, fetched.path.read_bytes()) == ("old.md", b"here")
    with pytest.raises(SourceError, match="without end"):
        await fetcher.fetch(f"{server.url}/round.md")


async def test_an_answer_that_leads_nowhere(fetcher: Fetcher, server: Any) -> None:
    """A redirect without an address is an error like any other answer."""
    server.answers["/b.md"] = [(302, {}, b"")]

    with pytest.raises(SourceError, match="answered 302"):
        await fetcher.fetch(f"{server.url}/b.md")


async def test_credentials_are_not_sent_elsewhere(fetcher: Fetcher, server: Any) -> None:
    """The password of a URL goes to its own server, and not to the one that this points to."""
    server.answers["/a.md"] = [(302, {"Location": f"http://localhost:{server.port}/b.md"}, b"")]
    server.answers["/b.md"] = [(200, {}, b"x")]

    await fetcher.fetch(f"http://me:s3cret@127.0.0.1:{server.port}/a.md")

    assert ["Authorization" in headers for headers in server.headers] == [True, False]
    assert all("s3cret" not in path.read_text(encoding="utf-8") for path in fetcher_files(fetcher))


def fetcher_files(fetcher: Fetcher) -> list[Path]:
    return [path for one in fetcher.fetched.values() for path in one.root.iterdir()]


async def test_the_size_is_bounded(fetcher: Fetcher, home: Home, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file larger than the limit is refused, whatever its server announced."""
    monkeypatch.setattr(download, "SIZE_LIMIT", 1000)
    (server.folder / "b.md").write_bytes(b"x" * 1001)

    with pytest.raises(SourceError, match="larger than 1,000 bytes"):
        await fetcher.fetch(f"{server.url}/b.md")

    assert kept(home) == []


async def test_a_silent_server_is_given_up(home: Home, environ: Environ, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and says nothing is left after the time limit."""
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SourceError, match=r"took longer than 0\.2 s"):
            await Fetcher(home, environ=environ).fetch(f"http://127.0.0.1:{port}/b.md")

    assert kept(home) == []


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://h.example/x", {}, None),
        ("https://me:pass@h.example/x", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h.example/x", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://h.example/x", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("https://h.example/x", {"HTTPS_PROXY": "http://no", "https_proxy": "http://p:1"}, "http://p:1"),
        ("https://h.example/x", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://h.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other, h.example"}, None),
        ("https://a.h.example/x", {"HTTPS_PROXY": "http://p:1", "no_proxy": ".h.example"}, None),
        ("https://a.h.example/x", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*.h.example"}, None),
        ("https://ah.example/x", {"HTTPS_PROXY": "http://p:1", "no_proxy": "h.example"}, "http://p:1"),
        ("https://h.example:8443/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h.example:8443"}, None),
        ("https://h.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h.example:8443"}, "http://p:1"),
        ("https://10.1.2.3/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
        ("https://[::1]/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "::1"}, None),
    ],
)
def test_which_proxy_is_used(url: str, environ: Environ, proxy: str | None) -> None:
    """The usual variables name the proxy of a scheme and the hosts that are reached without."""
    assert proxy == proxy_for(url, environ)


async def test_a_proxy_that_cannot_be_used_is_named(home: Home, environ: Environ) -> None:
    """A proxy of an unknown kind is an error; the file is not asked for without it."""
    environ["HTTP_PROXY"] = "gopher://p:1"

    with pytest.raises(SourceError, match=r"cannot be asked for: .*proxy"):
        await Fetcher(home, environ=environ).fetch("http://127.0.0.1:1/b.md")
