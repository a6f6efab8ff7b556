"""Addresses and paths of bundles, for apps that resolve them themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation import (
    ParsedURI,
    construct_agent_path,
    construct_context_path,
    find_bundle_root,
    find_files,
    normalize_path,
    parse_uri,
    paths,
)
from amplifier_foundation.paths.resolution import ResolvedSource, get_amplifier_home
from amplifier_foundation.sources.fetched import SourceError

_REPOSITORY = "git+https://example.com/org/repo"


@pytest.mark.parametrize(
    ("uri", "parts", "kind"),
    [
        (f"{_REPOSITORY}@v1#subdirectory=a/b", ("git+https", "example.com", "/org/repo", "v1", "a/b"), "git"),
        (_REPOSITORY, ("git+https", "example.com", "/org/repo", "main", ""), "git"),
        ("git+ssh://git@example.com/o/r", ("git+ssh", "git@example.com", "/o/r", "main", ""), "git"),
        ("file:///x/y#subdirectory=z", ("file", "", "/x/y", "", "z"), "file"),
        ("./x", ("file", "", "./x", "", ""), "file"),
        ("https://example.com/b.yaml", ("https", "example.com", "/b.yaml", "", ""), "http"),
        ("zip+https://example.com/b.zip#subdirectory=z", ("zip+https", "example.com", "/b.zip", "", "z"), "zip"),
        ("foundation/behaviors", ("", "", "foundation", "", "behaviors"), "package"),
    ],
)
def test_an_address_has_parts(uri: str, parts: tuple[str, ...], kind: str) -> None:
    """Every form of address is taken apart, and is of exactly one kind."""
    parsed = parse_uri(uri)
    assert tuple(parsed) == parts
    assert isinstance(parsed, ParsedURI)
    assert [name for name in ("git", "file", "http", "zip", "package") if getattr(parsed, f"is_{name}")] == [kind]


def test_what_is_no_address_is_refused() -> None:
    """The error says how to write an address."""
    with pytest.raises(SourceError, match="names no repository"):
        parse_uri("git+https://example.com")


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~`, `..` and relative paths are resolved, from the given folder or the current one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert normalize_path("~/x") == tmp_path / "x"
    assert normalize_path("a/../b", tmp_path / "c") == tmp_path / "c" / "b"
    assert normalize_path(Path("b")) == tmp_path / "b"


def test_the_parts_of_a_bundle_have_places(tmp_path: Path) -> None:
    """Agents are in `agents/`, context in `context/`, however the name is written."""
    assert construct_agent_path(tmp_path, "helper") == construct_agent_path(tmp_path, "helper.md")
    assert construct_agent_path(tmp_path, "helper") == tmp_path / "agents" / "helper.md"
    assert construct_context_path(tmp_path, "context/a.md") == construct_context_path(tmp_path, "a.md")


async def test_bundles_and_files_are_found(tmp_path: Path) -> None:
    """The root is the nearest folder upwards with a bundle file; files are found below a folder, sorted."""
    (tmp_path / "bundle.yaml").write_text("bundle: {name: a}\n")
    inner = tmp_path / "agents" / "deep"
    inner.mkdir(parents=True)
    for file in (inner / "b.md", tmp_path / "agents" / "a.md"):
        file.write_text("text")
    assert await find_bundle_root(inner / "b.md") == tmp_path
    assert await find_files(tmp_path, "*.md") == [tmp_path / "agents" / "a.md", inner / "b.md"]
    assert await find_files(tmp_path / "agents", "*.md", recursive=False) == [tmp_path / "agents" / "a.md"]
    assert await find_files(tmp_path / "missing", "*.md") == []


def test_the_home_and_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is where AMPLIFIER_HOME says; a source knows its whole and the part that is meant."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))
    assert get_amplifier_home() == tmp_path
    assert ResolvedSource(tmp_path / "a", tmp_path).is_subdirectory
    assert not ResolvedSource(tmp_path, tmp_path).is_subdirectory


def test_the_package_has_the_names_too() -> None:
    """`amplifier_foundation.paths` has them as attributes, and no others."""
    assert paths.parse_uri is parse_uri
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = paths.nothing
