"""A server made with the official SDK, in a process of its own: everything it offers can be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for

Session = Any
in_shared_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(params=["stdio", "http"])
async def connected(request: pytest.FixtureRequest, session: Session, sample: dict[str, Any], web: Any) -> Session:
    """Return a session with a sample server of its own, reached in each of both ways."""
    if request.param == "http":
        web.start()
        return await session.open({"s": {"type": "http", "url": web.url}})
    return await session.open({"s": sample})


@in_shared_loop
async def test_everything_it_offers_is_mounted(shared: Session) -> None:
    """Tools, resources, templates and prompts are tools with the names of the contract, and an event counts them."""
    told = await shared.told("connected")
    assert (told["server"], told["tools"], told["resources"], told["prompts"]) == ("s", 10, 2, 1)
    assert {"mcp_s_add", "mcp_s_resource_hello", "mcp_s_resource_note", "mcp_s_prompt_review"} <= set(shared.tools)
    add = shared.tools["mcp_s_add"]
    assert add.description == "Add two numbers."
    assert set(add.input_schema["properties"]) == {"a", "b"}
    assert add.action == "mcp.call"


@in_shared_loop
async def test_what_it_answers(shared: Session) -> None:
    """Each kind of answer becomes a result of the contract's form."""
    assert (await shared.call("s_add", a=1, b=2)).output == {
        "content": "3",
        "mcp_server": "s",
        "mcp_tool": "add",
        "content_size_chars": 1,
        "content_truncated": False,
    }
    assert (await shared.call("s_resource_hello")).output["content"] == "the text of the note"
    assert (await shared.call("s_resource_note", uri="note://x/text")).output["content"] == "the note x"
    assert (await shared.call("s_prompt_review", code="x = 1")).output["content"] == "user:\nPlease review x = 1"
    failed = await shared.call("s_fail")
    assert (failed.success, failed.error["code"]) == (False, "mcp_tool_error")
    [image] = (await shared.call("s_picture")).content
    assert image.source["media_type"] == "image/png"


@in_shared_loop
async def test_a_resource_reads_its_own_address_alone(shared: Session) -> None:
    """A rule for the tool of one resource is no rule for all: another address is refused, one's own is not."""
    refused = await shared.call("s_resource_hello", uri="note://x/text")
    assert (refused.success, refused.error["code"]) == (False, "mcp_protocol_error")
    assert "this tool reads note://hello alone" in refused.error["message"]
    assert "the note x" not in str(refused)
    assert (await shared.call("s_resource_hello", uri="note://hello")).output["content"] == "the text of the note"
    refused = await shared.call("s_resource_note", uri="note://hello")
    assert (refused.success, refused.error["code"]) == (False, "mcp_protocol_error")
    assert "this tool reads addresses of the form note://{name}/text" in refused.error["message"]


async def test_a_list_that_changes(connected: Session) -> None:
    """A tool that comes is mounted and one that goes is unmounted while the session runs; an event names them."""
    await connected.call("s_grow")
    told = await connected.told("tools_changed", 2)
    assert (told["added"], told["removed"]) == (["mcp_s_grown"], ["mcp_s_fail"])
    assert "mcp_s_fail" not in connected.tools
    assert (await connected.call("s_grown")).output["content"] == "grown"


@in_shared_loop
async def test_long_answers_are_cut(shared: Session) -> None:
    """Of a long answer the beginning is returned, and how long it was."""
    output = (await shared.call("s_long", count=5000)).output
    assert (output["content_size_chars"], output["content_truncated"]) == (5000, True)
    assert output["content"].startswith("x" * 1000 + "\n[... 4,000 characters")


async def test_the_environment_is_not_handed_on(
    session: Session, sample: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server sees what its entry names and a few harmless variables, no others; a secret it tells is hidden."""
    monkeypatch.setenv("OUR_API_KEY", "key-of-the-host")
    monkeypatch.setenv("OUR_PLAIN_WORD", "word-of-the-host")
    monkeypatch.setenv("A_TOKEN", "the-token-itself")
    await session.open({"s": {**sample, "env": {"SAMPLE_TOKEN": "${A_TOKEN}"}}})
    content = (await session.call("s_environment")).output["content"].splitlines()
    assert "SAMPLE_TOKEN" in content
    assert not {"OUR_API_KEY", "OUR_PLAIN_WORD", "A_TOKEN"} & set(content)
    assert content[-1] == "${A_TOKEN}"


async def test_nothing_is_left_of_it(
    session: Session, sample: dict[str, Any], token: str, naps: Callable[[], list[int]], project: Path
) -> None:
    """What a server has started and detached is gone when the session is closed."""
    await session.open({"s": sample})
    await session.call("s_leave", seconds=token)
    assert await wait_for(lambda: bool(naps()), timeout=60)
    await session.close()
    assert naps() == []
    assert session.connection("s").state == "closed"


async def test_http_server_down(session: Session, web: Any) -> None:
    """A server that is down is told with the reason; it is used as soon as it is there, and again after a restart."""
    await session.open(
        {"s": {"url": web.url}}, retry={"attempts": 1, "initial_delay": 0.05, "max_delay": 0.1, "failures": 100}
    )
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("unreachable", None)
    web.start()
    await session.connection("s").ready()
    assert (await session.call("s_add", a=1, b=1)).success
    web.stop()
    lost = await session.call("s_add", a=1, b=1)
    assert (lost.success, lost.error["code"]) == (False, "mcp_unavailable")
    await session.told("disconnected")
    web.start()

    async def again() -> bool:
        return bool((await session.call("s_add", a=2, b=2)).success)

    for _ in range(100):
        if await again():
            break
    else:
        pytest.fail(session.everything_said())


async def test_clashing_tool_names_are_reported(session: Session, odd: Any) -> None:
    """Of two servers with the same tool names one keeps them; the new names of the other's tools are reported."""
    await session.open({"odd_x": odd(), "odd.x": odd()})
    await session.told("connected", 2)
    told = await session.told("renamed")
    assert told["server"] == "odd_x"
    [renamed] = [name for name, tool in told["tools"].items() if tool == "echo"]
    tools = session.coordinator.get("tools")
    assert tools[renamed].get_metadata()["mcp_server"] == "odd_x"
    assert tools["mcp_odd_x_echo"].get_metadata()["mcp_server"] == "odd.x"
