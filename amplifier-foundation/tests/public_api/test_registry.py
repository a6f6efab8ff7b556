"""Bundles by name, and whether their sources have changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation import (
    Bundle,
    BundleLoadError,
    BundleNotFoundError,
    BundleRegistry,
    BundleState,
    UpdateInfo,
    check_bundle_status,
    load_bundle,
    update_bundle,
)
from amplifier_foundation.bundles.bundle import IncludeError

TEAM = "bundle: {{name: team, version: '{0}'}}\ntools: [{{module: tool-bash, config: {{timeout: {0}}}}}]\n"


def write_team(folder: Path, version: str = "1") -> Path:
    """Write a bundle and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "team.yaml").write_text(TEAM.format(version), encoding="utf-8")
    return folder / "team.yaml"


async def test_names_are_registered_and_kept(app_home: Path, tmp_path: Path) -> None:
    """A registered name loads, is saved with what is known of it, and is there for the next registry."""
    file = write_team(tmp_path / "there")
    registry = BundleRegistry()
    assert registry.home == app_home
    registry.register({"team": str(file), "other": "git+https://example.invalid/o@main"})
    assert registry.find("team") == str(file)
    assert registry.find("unknown") is None
    assert registry.list_registered() == ["other", "team"]
    bundle = await registry.load("team")
    assert isinstance(bundle, Bundle)
    assert bundle.version == "1"
    registry.save()
    again = BundleRegistry(app_home)
    state = again.get_state("team")
    assert isinstance(state, BundleState)
    assert (state.uri, state.version, state.explicitly_requested) == (str(file), "1", True)
    assert state.loaded_at is not None
    assert again.get_state("unknown") is None
    states = again.get_state()
    assert isinstance(states, dict)
    assert set(states) == {"other", "team"}
    assert again.unregister("team")
    assert not again.unregister("team")
    assert (await again.load("minimal")).name == "minimal"  # type: ignore[union-attr]  # a name gives one bundle


async def test_loading_registers_unless_told_not_to(app_home: Path, tmp_path: Path) -> None:
    """A bundle that was loaded is known by its own name, with those that it includes."""
    file = write_team(tmp_path / "there")
    root = tmp_path / "root.yaml"
    root.write_text(f"bundle: {{name: root}}\nincludes: [{{bundle: {file}}}]\n")
    registry = BundleRegistry()
    await registry.load(str(root), auto_register=False)
    assert "root" not in registry.list_registered()
    await registry.load(str(root))
    assert registry.get_state("root").includes == ["team"]  # type: ignore[union-attr]  # a name gives one state
    assert registry.get_state("team").included_by == ["root"]  # type: ignore[union-attr]
    loaded = await registry.load()
    assert isinstance(loaded, dict)
    assert sorted(loaded) == ["root", "team"]


def test_a_state_is_read_as_it_was_written() -> None:
    """`to_dict` and `from_dict` are inverse; unknown keys and unreadable times are ignored."""
    state = BundleState("git+https://e/x@main", "x", "1", datetime(2026, 1, 2, tzinfo=UTC), includes=["y"])
    data = json.loads(json.dumps(state.to_dict()))
    assert BundleState.from_dict("x", data) == state
    assert BundleState.from_dict("x", {"uri": "u", "loaded_at": "yesterday", "new": 1}) == BundleState("u", "x")


def test_a_broken_registry_counts_as_empty(app_home: Path) -> None:
    """A registry file that cannot be read, or with another shape, has no bundles; a deleted copy has no path."""
    (app_home / "registry.json").write_text("[1")
    assert BundleRegistry().list_registered() == []
    entry = {"uri": "u", "local_path": str(app_home / "gone")}
    (app_home / "registry.json").write_text(json.dumps({"bundles": {"a": entry, "b": 1}}))
    registry = BundleRegistry()
    assert registry.list_registered() == ["a"]
    assert registry.get_state("a").local_path is None  # type: ignore[union-attr]  # a name gives one state


async def test_an_app_may_replace_included_sources(app_home: Path, tmp_path: Path) -> None:
    """The app's resolver is asked for every include, and None keeps what the bundle says."""
    file = write_team(tmp_path / "there")
    root = tmp_path / "root.yaml"
    root.write_text("bundle: {name: root}\nincludes: [{bundle: 'git+https://example.invalid/o@main'}]\n")
    asked: list[str] = []

    def choose(uri: str) -> str | None:
        asked.append(uri)
        return str(file) if "example.invalid" in uri else None

    registry = BundleRegistry(include_source_resolver=choose)
    bundle = await registry.load(str(root))
    assert isinstance(bundle, Bundle)
    assert bundle.tools[0]["module"] == "tool-bash"
    assert asked == ["git+https://example.invalid/o@main"]
    registry.set_include_source_resolver(lambda uri: None)
    root.write_text(f"bundle: {{name: root}}\nincludes: [{{bundle: {file}}}]\n")
    assert isinstance(await registry.load(str(root)), Bundle)


async def test_missing_includes_are_warnings_unless_strict(
    app_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing include is left out with a warning that names it; strict raises."""
    root = tmp_path / "root.yaml"
    root.write_text("bundle: {name: root}\nincludes: [{bundle: ./gone.yaml}]\ntools: [{module: tool-web}]\n")
    assert (await load_bundle(str(root))).tools == [{"module": "tool-web"}]
    assert "gone.yaml" in caplog.text
    with pytest.raises(IncludeError, match=r"gone\.yaml"):
        await load_bundle(str(root), strict=True)
    with pytest.raises(IncludeError):
        await load_bundle(str(root), registry=BundleRegistry(strict=True))
    with pytest.raises(ValueError, match="strict"):
        await load_bundle(str(root), registry=BundleRegistry(), strict=True)


async def test_what_is_no_bundle_is_said_in_the_published_words(app_home: Path, tmp_path: Path) -> None:
    """A missing file, a folder without a bundle, another suffix and an unknown name each have their own message."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    for reference, kind, text in (
        (tmp_path / "gone.md", BundleNotFoundError, f"File not found: {tmp_path / 'gone.md'}"),
        (
            tmp_path / "empty",
            BundleLoadError,
            f"Not a valid bundle: missing bundle.md or bundle.yaml in {tmp_path / 'empty'}",
        ),
        (tmp_path / "notes.txt", BundleLoadError, f"Unknown bundle format: {tmp_path / 'notes.txt'}"),
        ("no-such-bundle", BundleNotFoundError, "No handler for URI: no-such-bundle"),
    ):
        with pytest.raises(kind) as error:
            await load_bundle(str(reference))
        assert str(error.value).startswith(text)


async def test_unknown_names_are_key_errors(app_home: Path) -> None:
    """Checking and updating need a registered name."""
    registry = BundleRegistry()
    for method in (registry.check_update, registry.update):
        with pytest.raises(KeyError, match="Bundle 'x' not registered"):
            await method("x")


async def test_a_registered_repository_is_checked_and_updated(app_home: Path, upstream: Any) -> None:
    """A newer commit is an update; updating fetches it."""
    write_team(upstream.folder)
    first = upstream.commit({"bundle.yaml": TEAM.format("1")})
    registry = BundleRegistry()
    registry.register({"team": upstream.uri, "here": str(upstream.folder)})
    await registry.load("team")
    assert await registry.check_update("team") is None
    second = upstream.commit({"bundle.yaml": TEAM.format("2")})
    assert await registry.check_update("team") == UpdateInfo("team", first, second, upstream.uri)
    assert await registry.check_update() == [UpdateInfo("team", first, second, upstream.uri)]
    assert (await registry.load("team")).version == "1"  # type: ignore[union-attr]  # a name gives one bundle
    assert (await registry.update("team")).version == "2"  # type: ignore[union-attr]
    assert await registry.check_update("team") is None


async def test_the_sources_of_a_bundle_are_checked_and_updated(app_home: Path, upstream: Any, tmp_path: Path) -> None:
    """The status names what is newer, pinned and unknown; only what is chosen is fetched again."""
    write_team(upstream.folder)
    first = upstream.commit({"bundle.yaml": TEAM.format("1")})
    bundle = (await load_bundle(upstream.uri)).compose(
        Bundle(
            "more",
            tools=[
                {"module": "tool-pinned", "source": f"git+file://{upstream.folder}@{first}"},
                {"module": "tool-lost", "source": f"git+file://{tmp_path / 'lost'}@main"},
                {"module": "tool-here", "source": str(upstream.folder)},
            ],
        )
    )
    status = await check_bundle_status(bundle)
    assert not status.has_updates
    assert [one.source_uri for one in status.up_to_date_sources] == [upstream.uri, bundle.tools[1]["source"]]
    assert status.up_to_date_sources[1].is_pinned
    (unknown,) = status.unknown_sources
    assert unknown.error
    assert not unknown.is_cached
    second = upstream.commit({"bundle.yaml": TEAM.format("2")})
    status = await check_bundle_status(bundle)
    (newer,) = status.updateable_sources
    assert (newer.cached_commit, newer.remote_commit, newer.has_update) == (first, second, True)
    assert status.summary == "more: 1 can be updated, 1 up to date, 1 unknown"
    assert (await update_bundle(bundle, selective=[])).has_updates
    assert not (await update_bundle(bundle)).has_updates
    assert (await load_bundle(upstream.uri)).version == "2"


async def test_updating_uses_the_cache_that_is_given(
    app_home: Path, upstream: Any, tmp_path: Path, write_module: Any
) -> None:
    """Another cache has copies of its own, into which chosen modules are fetched."""
    write_module(upstream.folder)
    upstream.commit({})
    cache = tmp_path / "own"
    bundle = Bundle("app", tools=[{"module": "tool-echo", "source": upstream.uri}])
    (missing,) = (await check_bundle_status(bundle, cache)).unknown_sources
    assert missing.summary == "not cached"
    (fetched,) = (await update_bundle(bundle, cache, selective=[upstream.uri])).up_to_date_sources
    assert fetched.cached_at is not None
    assert list(cache.iterdir())
    assert not (app_home / "cache").exists()
