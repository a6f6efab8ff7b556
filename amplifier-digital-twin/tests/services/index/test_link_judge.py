"""An index cannot make the host read its own files or ask its own services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.services.host_index import HostIndex, Location, UpstreamError
from amplifier_digital_twin.services.http_site import Answer, HttpSite, Question
from amplifier_digital_twin.services.link_judge import LinkJudge, LinkRefusedError


@pytest.fixture
async def hostile(tmp_path: Path) -> Any:
    """Return the address of an index whose pages name a file of this machine and services on it."""
    import socket

    secret = tmp_path / "secret"
    secret.write_text("of the host", encoding="utf-8")
    asked: list[str] = []

    async def answer(question: Question) -> Answer:
        asked.append(question.path)
        if question.path == "/away":
            return Answer(302, headers={"Location": f"http://127.0.0.1:{other}/metadata"})
        links = [secret.as_uri(), f"http://127.0.0.1:{other}/evil-1.0.tar.gz", "/away"]
        page = "".join(f'<a href="{link}">evil-{number}.0.tar.gz</a>' for number, link in enumerate(links))
        return Answer(200, page.encode(), "text/html")

    site = HttpSite(answer)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    port, other = (one.getsockname()[1] for one in sockets)
    for one in sockets:
        await site.serve(one)
    index = HostIndex([Location.parse("index", f"http://127.0.0.1:{port}/simple")], {})
    yield index, asked
    await index.close()
    await site.close()


async def _read(index: HostIndex, url: str) -> bytes:
    return b"".join([piece async for piece in index.content(url)])


async def test_pages_of_the_web_name_no_files_of_this_machine(hostile: Any, tmp_path: Path) -> None:
    """A `file:` link on a page of the web is left out, and nobody is given what it names."""
    index, _ = hostile
    files = await index.page("evil")
    assert files
    assert not [file for file in files if file.url.startswith("file:")]
    with pytest.raises(UpstreamError, match="no page of this machine"):
        await _read(index, (tmp_path / "secret").as_uri())


async def test_links_and_redirects_lead_to_no_service_of_this_machine(hostile: Any) -> None:
    """Neither a link nor a redirect of an index makes the host ask another port of its own."""
    index, asked = hostile
    links = [file.url for file in await index.page("evil") if file.url.startswith("http:")]
    assert len(links) == 2
    for url in links:
        with pytest.raises(UpstreamError, match="this machine itself"):
            await _read(index, url)
    assert "/metadata" not in asked


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "[fe80::1]", "0.0.0.0"])
async def test_public_indexes_lead_to_the_internet_only(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of the internet leads to no private or special address."""
    judge = LinkJudge(frozenset({"index.example"}), {})

    async def resolve(name: str) -> list[str]:
        await asyncio.sleep(0)
        return ["93.184.216.34"]

    monkeypatch.setattr("amplifier_digital_twin.services.link_judge._resolve", resolve)
    with pytest.raises(LinkRefusedError):
        await judge.judged(f"https://{host}/x.whl")
    judged = await judge.judged("https://files.example:8443/x.whl?y=1")
    assert judged.url == "https://93.184.216.34:8443/x.whl?y=1"
    assert judged.headers == {"Host": "files.example:8443"}
    assert judged.extensions == {"sni_hostname": "files.example"}


async def test_private_indexes_lead_to_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of a private network may lead to its neighbours, and still not where clouds hand out credentials."""
    judge = LinkJudge(frozenset({"index.internal"}), {})

    async def resolve(name: str) -> list[str]:
        await asyncio.sleep(0)
        return ["10.9.8.7"]

    monkeypatch.setattr("amplifier_digital_twin.services.link_judge._resolve", resolve)
    assert (await judge.judged("http://files.internal/x.whl")).url == "http://10.9.8.7/x.whl"
    with pytest.raises(LinkRefusedError):
        await judge.judged("http://169.254.169.254/latest")


async def test_names_are_not_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many links to one name are one question; an answer that failed is asked for again."""
    judge = LinkJudge(frozenset({"index.example"}), {})
    asked: list[str] = []

    async def resolve(name: str) -> list[str]:
        asked.append(name)
        await asyncio.sleep(0)
        if asked.count("gone.example") == 1 and name == "gone.example":
            raise OSError("for the moment")
        return ["93.184.216.34"]

    monkeypatch.setattr("amplifier_digital_twin.services.link_judge._resolve", resolve)
    await asyncio.gather(*(judge.judged(f"https://files.example/{number}") for number in range(20)))
    assert sorted(asked) == ["files.example", "index.example"]
    with pytest.raises(OSError, match="moment"):
        await judge.judged("https://gone.example/x")
    assert (await judge.judged("https://gone.example/x")).url == "https://93.184.216.34/x"


async def test_one_who_gives_up_takes_the_answer_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is cancelled leaves the question to the others who wait for it."""
    judge = LinkJudge(frozenset(), {})
    answered = asyncio.Event()

    async def resolve(name: str) -> list[str]:
        await answered.wait()
        return ["93.184.216.34"]

    monkeypatch.setattr("amplifier_digital_twin.services.link_judge._resolve", resolve)
    first, second = (asyncio.create_task(judge.judged("https://files.example/x")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    answered.set()
    assert (await second).extensions == {"sni_hostname": "files.example"}
