"""Where servers come from: files of the user and of a trusted project, the environment, the bundle's own config."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.config import read_config
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.server_entry import ServerSpec, SpecError, read_spec
from amplifier_module_tool_mcp.server_files import Found, find_servers


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the folders of the user and of a project."""
    monkeypatch.delenv("AMPLIFIER_MCP_CONFIG", raising=False)
    home, project = tmp_path / "home é", tmp_path / "my project"
    home.mkdir()
    (project / ".amplifier").mkdir(parents=True)
    return home, project


def _write(path: Path, **servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def _found(places: tuple[Path, Path], inline: dict[str, Any] | None = None, is_trusted: Any = lambda: True) -> Found:
    return find_servers(inline or {}, home=places[0], project=places[1], is_trusted=is_trusted)


def test_the_later_source_counts(places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, `.mcp.json`, `.amplifier/mcp.json`, $AMPLIFIER_MCP_CONFIG and the bundle: each replaces what is before."""
    home, project = places
    monkeypatch.setenv("AMPLIFIER_MCP_CONFIG", str(tmp_path / "other.json"))
    names = ["user", "root", "project", "variable", "inline"]
    files = [home / "mcp.json", project / ".mcp.json", project / ".amplifier" / "mcp.json", tmp_path / "other.json"]
    for number, path in enumerate(files):
        _write(path, **{name: {"command": names[number]} for name in names[number:]})
    found = _found(places, {"inline": {"command": "inline"}})
    assert found.ignored == []
    assert {name: spec.command for name, spec in found.servers.items()} == {name: name for name in names}


def test_a_server_can_be_switched_off(places: tuple[Path, Path]) -> None:
    """An entry that is disabled takes one of the same name away that came before it."""
    _write(places[0] / "mcp.json", a={"command": "x"}, b={"command": "x"})
    _write(places[1] / ".mcp.json", a={"command": "x", "disabled": True}, b={"enabled": False})
    assert _found(places).servers == {}


@pytest.mark.parametrize("is_trusted", [None, lambda: False, lambda: "yes", lambda: 1 / 0])
def test_a_project_that_is_not_trusted(places: tuple[Path, Path], is_trusted: Any) -> None:
    """Files of a project count only when somebody says that it is trusted; what is left out is named."""
    _write(places[0] / "mcp.json", mine={"command": "x"})
    _write(places[1] / ".mcp.json", theirs={"command": "x"})
    _write(places[1] / ".amplifier" / "mcp.json", theirs={"command": "x"})
    found = _found(places, is_trusted=is_trusted)
    assert set(found.servers) == {"mine"}
    assert [(Path(each["origin"]).name, each["code"]) for each in found.ignored] == [
        (".mcp.json", "untrusted"),
        ("mcp.json", "untrusted"),
    ]


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"mcpServers": []}', b"\xff\xfe", b"[" * 100_000, b" " * (2 << 20), b'{"mcpServers": {"a": 1}}'],
)
def test_a_file_that_cannot_be_used(places: tuple[Path, Path], content: bytes) -> None:
    """It is named with the reason, and the others count."""
    (places[0] / "mcp.json").write_bytes(content)
    _write(places[1] / ".mcp.json", good={"command": "x"})
    found = _found(places)
    assert set(found.servers) == {"good"}
    [ignored] = found.ignored
    assert (ignored["origin"], ignored["code"]) == (str(places[0] / "mcp.json"), "invalid_config")
    assert ignored["reason"]


def test_odd_files(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark at the beginning and other line ends do no harm; a pipe is not waited for, a folder is no file."""
    text = json.dumps({"mcpServers": {"bom": {"command": "x"}}}, indent=1).replace("\n", "\r\n")
    (places[0] / "mcp.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    os.mkfifo(places[1] / ".amplifier" / "mcp.json")
    (places[1] / ".mcp.json").mkdir()
    monkeypatch.setenv("AMPLIFIER_MCP_CONFIG", str(places[0] / "nothing.json"))
    found = _found(places)
    assert set(found.servers) == {"bom"}
    assert [each["reason"] for each in found.ignored] == [
        "not a regular file",
        "there is no such file; $AMPLIFIER_MCP_CONFIG names it",
    ]


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("x", "mapping"),
        ({}, "command"),
        ({"type": "sse", "url": "http://x"}, "sse"),
        ({"type": "http", "command": "x"}, "url"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "args": ["a\0b"]}, "args"),
        ({"command": "x", "env": {"KEY": ["hidden-value"]}}, "KEY"),
        ({"command": "x", "required": "yes"}, "required"),
        ({"command": "x", "connect_timeout": 0}, "connect_timeout"),
        ({"command": "x", "protocol": "newest"}, "protocol"),
        ({"url": "http://x", "headers": {"Authorization": "hidden-value", "X": {"a": "hidden-value"}}}, "X"),
    ],
)
def test_wrong_entries(entry: Any, key: str) -> None:
    """What is wrong is named with its server and key, and values of `env` and headers are not quoted."""
    with pytest.raises(SpecError) as caught:
        read_spec("name", entry, "file.json")
    assert "file.json: server 'name'" in str(caught.value)
    assert key in str(caught.value)
    assert "hidden-value" not in str(caught.value)


def test_wrong_names() -> None:
    """A name that nobody could show is refused."""
    for name in ("", "a\nb", "x" * 101, 3):
        with pytest.raises(SpecError):
            read_spec(name, {"command": "x"}, "file.json")


@pytest.mark.parametrize(
    "config",
    [
        {"servers": []},
        {"max_content_size": 0},
        {"connect_timeout": float("inf")},
        {"visibility": {"inject_role": "assistant"}},
        {"visibility": True},
        {"retry": {"attempts": 0}},
        {"verbose_servers": "yes"},
        {"server_log_dir": 3},
    ],
)
def test_wrong_settings(config: dict[str, Any]) -> None:
    """The key is named."""
    with pytest.raises(ValueError, match=next(iter(config))):
        read_config(McpConfig, config, module="tool-mcp")


def test_settings(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Defaults are those of the README, the variable switches verbosity on, and unknown keys are told."""
    assert read_config(McpConfig, None, module="tool-mcp") == McpConfig()
    monkeypatch.setenv("AMPLIFIER_MCP_VERBOSE", "1")
    assert read_config(McpConfig, {}, module="tool-mcp").verbose_servers
    assert not read_config(McpConfig, {"verbose_servers": False}, module="tool-mcp").verbose_servers
    read_config(McpConfig, {"new_key": 1, "retry": {"other": 2}}, module="tool-mcp")
    assert "new_key" in caplog.text
    assert "retry.other" in caplog.text


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(st.dictionaries(texts, texts, max_size=3), st.lists(texts, max_size=3), texts)
def test_fingerprints(env: dict[str, str], args: list[str], command: str) -> None:
    """Equal configs have equal fingerprints, and every change of how a server is started changes it."""
    spec = ServerSpec("a", "here", "stdio", command, tuple(args), env)
    same = ServerSpec("a", "there", "stdio", command, tuple(args), dict(reversed(env.items())), required=True)
    assert spec.fingerprint == same.fingerprint
    assert spec.fingerprint != ServerSpec("a", "here", "stdio", command, (*args, "x"), env).fingerprint
    assert spec.fingerprint != ServerSpec("a", "here", "stdio", command, tuple(args), {**env, "\0": "1"}).fingerprint


@pytest.mark.parametrize(
    ("is_trusted", "vouches", "counts"),
    [
        (None, None, True),  # an app that knows nothing of trust made the config itself
        (lambda: True, None, True),
        (lambda: False, None, False),
        (lambda: False, lambda module: module == "tool-mcp", True),
        (lambda: False, lambda module: False, False),
        (lambda: False, lambda module: 1 / 0, False),
    ],
)
def test_inline_servers_of_an_untrusted_project(
    places: tuple[Path, Path], is_trusted: Any, vouches: Any, counts: bool
) -> None:
    """A bundle's own servers are started unless an untrusted project may have had a say in them, which is noted."""
    home, project = places
    inline = {"x": {"command": "x"}}
    found = find_servers(inline, home=home, project=project, is_trusted=is_trusted, is_inline_trusted=vouches)
    assert (set(found.servers) == {"x"}) is counts
    assert [one["code"] for one in found.ignored] == ([] if counts else ["untrusted"])
