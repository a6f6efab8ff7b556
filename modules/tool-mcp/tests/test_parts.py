"""Names, lists, answers, circuits and log files, each by itself."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_mcp.catalogue import Catalogue, CatalogueCache, Offer, fetch_catalogue, is_of_form
from amplifier_module_tool_mcp.config import Retry
from amplifier_module_tool_mcp.connection import Circuit
from amplifier_module_tool_mcp.faults import ServerFault, fault_of
from amplifier_module_tool_mcp.messages import MOST_STRAY_LINES, MessageReader
from amplifier_module_tool_mcp.server_entry import Mask, ServerSpec
from amplifier_module_tool_mcp.server_log import FILE_LIMIT, ErrorStream, log_path
from amplifier_module_tool_mcp.tools import Answer

kinds = st.sampled_from(["tool", "resource", "template", "prompt"])


@given(st.text(min_size=1, max_size=90), st.lists(st.tuples(kinds, st.text(max_size=90)), max_size=8, unique=True))
def test_names(server: str, offered: list[tuple[Any, str]]) -> None:
    """Every offer has a name of its own that all providers accept."""
    offers = tuple(Offer(kind, name) for kind, name in offered)
    named = Catalogue(offers).named(server)
    assert sorted(named.values(), key=repr) == sorted(offers, key=repr)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in named)


def test_names_that_fit_two_servers() -> None:
    """A name that fits two servers belongs to one of them by their names alone, and no rule for it fits the other."""
    servers = ["a", "a_b", "a.b"]
    [short] = Catalogue((Offer("tool", "b_c"),)).named("a", servers)
    assert re.fullmatch("mcp_a_[0-9a-f]{8}_b_c", short)
    assert list(Catalogue((Offer("tool", "c"),)).named("a.b", servers)) == ["mcp_a_b_c"]
    [second] = Catalogue((Offer("tool", "c"),)).named("a_b", servers)
    assert re.fullmatch("mcp_a_b_[0-9a-f]{8}_c", second)
    assert list(Catalogue((Offer("tool", "bc"), Offer("tool", "b"))).named("a", servers)) == ["mcp_a_bc", "mcp_a_b"]
    everywhere = st.lists(st.text("ab_.", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)

    @given(everywhere, everywhere)
    def check(servers: list[str], tools: list[str]) -> None:
        offers = tuple(Offer("tool", tool) for tool in tools)
        names = [name for server in servers for name in Catalogue(offers).named(server, servers)]
        assert len(set(names)) == len(names)

    check()


@pytest.fixture
def spec() -> ServerSpec:
    """Return a server that is never started."""
    return ServerSpec("a server", "here", "stdio", "x", tools=("a*", "page*"), exclude_tools=("ab",))


async def test_lists_are_bounded(spec: ServerSpec) -> None:
    """Pages that never end, texts and schemas that are too long, and tools that are not wanted."""

    def tool(name: str, **more: Any) -> Any:
        given = {"description": "d", "title": None, "input_schema": {"properties": {}}, **more}
        return SimpleNamespace(name=name, **given)

    asked: list[str | None] = []

    async def list_tools(cursor: str | None) -> Any:
        asked.append(cursor)
        first = [tool("a", description="x" * 9000), tool("ab"), tool("b"), tool("aa", input_schema={"k": "x" * 70_000})]
        tools = [tool(f"page{len(asked)}")] if cursor else first
        return SimpleNamespace(tools=tools, next_cursor="more")

    abilities = SimpleNamespace(tools=True, resources=None, prompts=None)
    client = SimpleNamespace(list_tools=list_tools, server_capabilities=abilities)
    catalogue = await fetch_catalogue(client, spec, 5)
    assert [offer.name for offer in catalogue.offers] == ["a", "aa", "page2", "page3"]
    assert len(asked) == 3
    assert len(catalogue.offers[0].description) == 4000
    assert catalogue.offers[1].schema == {"type": "object"}


@pytest.mark.parametrize(
    ("template", "right", "wrong"),
    [
        ("file:///{path}", ["file:///a", "file:///a/b c", "file:///"], ["file://a", "http://x", "", "file:/"]),
        ("note://{a}/text", ["note://x/text", "note://x/y/text"], ["note://text", "note://x/text/", "note://x"]),
        ("x://{a}-{b}.{c}/z", ["x://1-2.3/z"], ["x://1.2-3/z", "x://1-2/z", "x://1-2.3/zz"]),
        ("db://{+path}{?query}", ["db://a?b=c"], ["dc://a"]),
        ("plain://x", ["plain://x"], ["plain://x/y"]),
        ("aa{x}aa", ["aaaa", "aabaa"], ["aaa"]),
    ],
)
def test_forms_of_addresses(template: str, right: list[str], wrong: list[str]) -> None:
    """An address is of a form when it has all its fixed parts, each once and in order."""
    assert [uri for uri in (*right, *wrong) if is_of_form(uri, template)] == right


async def test_the_cache(tmp_path: Path, spec: ServerSpec) -> None:
    """What was saved is loaded again; another config has none, and what is broken is not used."""
    cache = CatalogueCache(tmp_path / "deep" / "cache")
    catalogue = Catalogue((Offer("tool", "a", "d", {"type": "object"}), Offer("resource", "r", "", {}, "x://y")))
    assert cache.load(spec) is None
    await cache.save(spec, catalogue)
    await cache.save(spec, catalogue)
    assert cache.load(spec) == catalogue
    assert cache.load(ServerSpec("a server", "here", "stdio", "y")) is None
    [path] = (tmp_path / "deep" / "cache").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    for text in ("{", "[]", '{"version": 1}', '{"version": 1, "offers": [3]}', '{"version": 2}', "[" * 99_999):
        path.write_text(text, encoding="utf-8")
        assert cache.load(spec) is None


async def test_a_cache_that_cannot_be_written(
    tmp_path: Path, spec: ServerSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """That a list cannot be kept is logged, and nothing else."""
    (tmp_path / "file").touch()
    await CatalogueCache(tmp_path / "file").save(spec, Catalogue())
    assert "cannot be kept" in caplog.text


def _block(kind: str, **fields: Any) -> Any:
    return SimpleNamespace(type=kind, **fields)


def test_answers() -> None:
    """Every kind of block is either passed on or said to be left out."""
    pixel = base64.b64encode(b"not really a picture").decode()
    answer = Answer(10_000, Mask())
    answer.add(
        [
            _block("text", text="a \ud800 b"),
            _block("image", data=pixel, mime_type="image/png"),
            _block("image", data="%%%", mime_type="image/png"),
            _block("image", data=pixel, mime_type="text/html"),
            _block("audio", data=pixel, mime_type="audio/wav"),
            _block("resource_link", name="n", uri="x://y"),
            _block("resource", resource=SimpleNamespace(uri="u", text="inside", mime_type=None)),
            _block("resource", resource=SimpleNamespace(uri="u", blob=pixel, mime_type="application/zip")),
            _block("resource", resource=SimpleNamespace(uri="u", blob=pixel, mime_type="image/gif")),
            _block("hologram"),
        ]
    )
    result = answer.result("s", "t")
    assert result.content is not None
    assert [block.source["media_type"] for block in result.content] == ["image/png", "image/gif"]  # type: ignore[union-attr]
    assert result.output["content"].splitlines() == [
        "a ? b",
        "[image left out: invalid image data of type 'image/png']",
        "[image left out: invalid image data of type 'text/html']",
        "[audio of type audio/wav, 21 bytes: left out]",
        "[resource n: x://y]",
        "inside",
        "[u: 21 bytes of application/zip: left out]",
        "[a block of type 'hologram': left out]",
    ]


def test_circuits() -> None:
    """Five failures in a row close the way for a minute; a success opens it; waits grow up to their limit."""
    now = 1000.0
    circuit = Circuit(Retry(), clock=lambda: now)
    for _ in range(4):
        circuit.failed()
    assert circuit.wait() == 0
    circuit.failed()
    assert circuit.wait() == 60
    now += 61
    assert circuit.wait() == 0
    circuit.failed()
    assert circuit.wait() == 60
    circuit.succeeded()
    assert circuit.wait() == 0
    assert [circuit.delay(attempt) for attempt in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 7))
async def test_lines(lines: list[bytes], size: int) -> None:
    """However the bytes are cut, each line that is a message comes out once and in order."""
    reader = MessageReader(1000)
    messages = [json.dumps({"n": number}).encode() for number in range(len(lines))]
    stray = [line.replace(b"\n", b"").replace(b"{", b"") for line in lines]
    stream = b"".join(b"%s\n%s\r\n" % pair for pair in zip(stray, messages, strict=True))
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
    reader.close()
    found = []
    while (message := await reader.next(json.loads)) is not None:
        found.append(message["n"])
    assert found == list(range(len(lines)))
    assert reader.fault is None


async def test_stray_lines_have_a_limit() -> None:
    """So many lines that are no messages are forgiven, and not one more; braces alone make no message."""
    reader = MessageReader(1 << 20)
    reader.feed(b"x\n" * MOST_STRAY_LINES)
    assert not reader.fault
    reader.feed(b"{oops\n")
    assert await asyncio.wait_for(reader.next(json.loads), 60) is None
    assert getattr(reader.fault, "code", None) == "malformed"


def test_log_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log has the server's lines without colours and secrets, a limit, and one file before it."""
    mask = Mask()
    mask.add("the-secret", "${KEY}", is_secret=True)
    path = log_path(tmp_path / "logs", "odd/../name")
    assert path.name == "odd_.._name.log"
    stream = ErrorStream("odd", path, mask)
    stream.feed(b"\x1b[31mred\x1b[0m the-se")
    stream.feed(b"cret\nlast \xff")
    stream.close()
    assert path.read_text(encoding="utf-8") == "red ${KEY}\nlast \ufffd\n"
    assert stream.error_line == "last \ufffd"
    stream = ErrorStream("odd", path, mask)
    stream.feed((b"y" * 999 + b"\n") * (FILE_LIMIT // 500))
    stream.close()
    assert stream.is_flood
    assert FILE_LIMIT < path.stat().st_size < FILE_LIMIT + 3000
    ErrorStream("odd", path, mask).close()
    assert path.with_suffix(".log.1").exists()
    (tmp_path / "file").touch()
    lost = ErrorStream("odd", tmp_path / "file" / "x.log", mask)
    lost.feed(b"still heard\n")
    lost.close()
    assert lost.error_line == "still heard"
    assert "cannot be written" in caplog.text


def test_log_files_stay_in_the_project(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A link that a command has put in the place of a configured folder, or file, of logs is not written through."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "real").mkdir(parents=True)
    outside.mkdir()
    (outside / "s.log").write_text("mine\n")
    (project / "logs").symlink_to(outside)
    (project / "real" / "s.log").symlink_to(outside / "s.log")
    for folder in ("logs", "real"):
        stream = ErrorStream("s", project / folder / "s.log", Mask(), project=project)
        stream.feed(b"evil\n")
        stream.close()
    assert (outside / "s.log").read_text() == "mine\n"
    assert [entry.name for entry in outside.iterdir()] == ["s.log"]
    assert caplog.text.count("cannot be written") == 2


def test_faults() -> None:
    """Of a group of exceptions the one that says most is told."""
    group = BaseExceptionGroup("g", [asyncio.CancelledError(), ExceptionGroup("h", [FileNotFoundError("nothing")])])
    assert fault_of(group).reason == "FileNotFoundError: nothing"
    assert fault_of(asyncio.CancelledError()).code == "disconnected"
    assert fault_of(TimeoutError()).code == "timeout"
    own = ServerFault("flood", "much")
    assert fault_of(ExceptionGroup("g", [own])) is own
    assert len(fault_of(ValueError("x" * 9999)).reason) == 500
