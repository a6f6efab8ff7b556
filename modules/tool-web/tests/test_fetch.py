"""web_fetch: the published shape, paging, types and texts, against a real server."""

from __future__ import annotations

from typing import Any

import pytest

ARTICLE = "".join(
    f"<p>Wheel number {n} carries the tens to the <b>next</b> column of the engine.</p>" for n in range(9)
)
PAGE = (
    "<!doctype html><html><head><title>Engine</title><style>p{}</style></head><body><nav><a href='/home'>Home</a></nav>"
    f"<article><h1>The engine</h1>{ARTICLE}<p>See <a href='/plan'>the plan</a> for more about it, if you like.</p>"
    "</article><script>alert('no')</script></body></html>"
)


async def test_the_published_shape(world: Any, site: Any) -> None:
    """A text comes as it is, with exactly the published keys."""
    site.text("/notes.txt", "ten wheels\n")
    result = await world.fetch(site.url("/notes.txt"))
    assert result.success
    assert result.output == {
        "url": site.url("/notes.txt"),
        "content": "ten wheels\n",
        "content_type": "text/plain; charset=utf-8",
        "truncated": False,
        "total_bytes": 11,
        "offset": 0,
        "limit": 204800,
        "returned_bytes": 11,
    }


async def test_the_tool_describes_itself(world: Any) -> None:
    """Name, action and schema are the published ones."""
    tool = world.tool(default_limit=77)
    assert (tool.name, tool.action) == ("web_fetch", "network.fetch")
    assert list(tool.input_schema["properties"]) == ["url", "save_to_file", "offset", "limit"]
    assert tool.input_schema["required"] == ["url"]
    assert tool.input_schema["properties"]["limit"]["default"] == 77
    assert "Markdown" in tool.description
    assert "Markdown" not in world.tool(extract_text=False).description


async def test_pages_become_readable(world: Any, site: Any) -> None:
    """An HTML page is given as Markdown with whole links, without what surrounds the article."""
    site.page("/engine", PAGE)
    content = (await world.fetch(site.url("/engine"))).output["content"]
    assert content.startswith("# The engine")
    assert f"[the plan]({site.url('/plan')})" in content
    assert "Home" not in content
    assert "alert" not in content


async def test_pages_as_they_are(world: Any, site: Any) -> None:
    """Without extract_text a page is given with its tags."""
    site.page("/engine", PAGE)
    assert (await world.fetch(site.url("/engine"), {"extract_text": False})).output["content"] == PAGE


async def test_pages_without_an_article_are_given_whole(world: Any, site: Any) -> None:
    """A page on which nothing is readable comes as all of its text."""
    site.page("/menu", "<html><body><footer>Mill Store</footer><script>x()</script></body></html>")
    assert (await world.fetch(site.url("/menu"))).output["content"].split() == ["Mill", "Store"]


async def test_pages_of_an_unknown_type_are_recognised(world: Any, site: Any) -> None:
    """A server that does not say what it sends is looked at: HTML is read as such."""
    site.text("/page", PAGE, "application/octet-stream")
    assert (await world.fetch(site.url("/page"))).output["content"].startswith("# The engine")


async def test_parts_follow_each_other(world: Any, site: Any) -> None:
    """Asking again at offset + returned_bytes until nothing is truncated gives the whole text once."""
    text = "aä€😀" * 50
    site.text("/long", text)
    offset, parts = 0, []
    while True:
        output = (await world.fetch(site.url("/long"), offset=offset, limit=7)).output
        assert output["offset"] == offset
        assert 0 < output["returned_bytes"] <= 7
        assert output["total_bytes"] == len(text.encode())
        parts.append(output["content"])
        offset += output["returned_bytes"]
        if not output["truncated"]:
            break
    assert "".join(parts) == text


async def test_an_offset_behind_the_end(world: Any, site: Any) -> None:
    """Behind the end there is nothing, and nothing more to come."""
    site.text("/short", "abc")
    output = (await world.fetch(site.url("/short"), offset=99)).output
    assert (output["content"], output["returned_bytes"], output["truncated"]) == ("", 0, False)


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("image/png", b"\x89PNG\r\n"),
        ("application/pdf", b"%PDF-1.7"),
        ("application/zip", b"PK\x03\x04"),
        ("text/plain", b"a\0b"),
        ("application/octet-stream", b"\x7fELF\0\0"),
    ],
)
async def test_binary_files_are_not_shown(world: Any, site: Any, content_type: str, data: bytes) -> None:
    """What is no text is refused by its type or by its bytes, with the way to keep it."""
    site.text("/file", data, content_type)
    result = await world.fetch(site.url("/file"))
    assert not result.success
    assert result.error["code"] == "binary_content"
    assert "save_to_file" in result.output


@pytest.mark.parametrize("content_type", ["application/json", "application/ld+json", "image/svg+xml", "text/x-any", ""])
async def test_other_texts_are_shown(world: Any, site: Any, content_type: str) -> None:
    """Texts of every type come as they are."""
    site.text("/data", '{"a": 1}', content_type)
    assert (await world.fetch(site.url("/data"))).output["content"] == '{"a": 1}'


async def test_character_sets(world: Any, site: Any) -> None:
    """The header's character set is used."""
    site.text("/latin", "Gruß".encode("latin-1"), "text/plain; charset=iso-8859-1")
    assert (await world.fetch(site.url("/latin"))).output["content"] == "Gruß"


@pytest.mark.parametrize("status", [201, 204, 301, 304, 400, 401, 404, 410, 429, 500, 503])
async def test_other_answers_are_failures(world: Any, site: Any, status: int) -> None:
    """Everything but 200 is an error that carries the status; 301 is one when it leads nowhere."""
    site.status("/x", status)
    result = await world.fetch(site.url("/x"))
    assert result.error["code"] == "http_status"
    assert result.error["status"] == status
    assert str(status) in result.error["message"]


async def test_when_to_try_again(world: Any, site: Any) -> None:
    """A server that says when to come back is passed on."""
    site.status("/x", 429, Retry_After="120")
    assert "after 120" in (await world.fetch(site.url("/x"))).output


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"url": ""},
        {"url": 7},
        {"url": None},
        {"url": "http://site.example", "offset": -1},
        {"url": "http://site.example", "offset": True},
        {"url": "http://site.example", "limit": 0},
        {"url": "http://site.example", "limit": "many"},
        {"url": "http://site.example", "save_to_file": 3},
    ],
)
async def test_input_that_makes_no_sense(world: Any, given: dict[str, Any]) -> None:
    """A wrong input is a failed result that names what is wrong, and nothing is fetched."""
    result = await world.tool().execute(given)
    assert result.error["code"] == "invalid_input"
    assert world.resolved == []


async def test_a_request_carries_nothing_private(world: Any, site: Any) -> None:
    """No cookies, no credentials, no referrer go out; the host is named as in the URL."""
    site.answers["/a"] = lambda handler: _with_cookie(handler)
    site.text("/b", "done")
    assert (await world.fetch(site.url("/a"))).success
    sent = {name.lower(): value for name, value in site.headers[-1].items()}
    assert set(sent) == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert sent["host"] == f"site.example:{site.port}"


def _with_cookie(handler: Any) -> None:
    handler.send_response(302)
    for name, value in (("Location", "/b"), ("Set-Cookie", "id=1"), ("Content-Length", "0")):
        handler.send_header(name, value)
    handler.end_headers()


async def test_a_declared_character_set_with_zeros_is_text(world: Any, site: Any) -> None:
    """A text in UTF-16 without a mark is read, and saved with a preview, when its header says what it is."""
    site.text("/x", "Grüße".encode("utf-16-le"), "text/plain; charset=utf-16le")
    assert (await world.fetch(site.url("/x"))).output["content"] == "Grüße"
    saved = (await world.fetch(site.url("/x"), save_to_file="x.txt")).output
    assert (saved["content"], saved["saved_bytes"]) == ("Grüße", 10)
