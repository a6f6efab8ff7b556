"""Mentions and their files, for apps that load them themselves."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from amplifier_foundation import (
    BaseMentionResolver,
    ContentDeduplicator,
    MentionResolverProtocol,
    expand_mentions_in_instruction,
    load_mentions,
    parse_mentions,
)
from amplifier_foundation.mentions import format_context_block, format_directory_listing


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with some notes, beside a bundle."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "notes.md").write_text("Read @docs/rules and @docs/copy.md", encoding="utf-8")
    (folder / "docs" / "rules.md").write_text("Be brief.", encoding="utf-8")
    (folder / "docs" / "copy.md").write_text("Be brief.", encoding="utf-8")
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "style.md").write_text("Short words.", encoding="utf-8")
    return folder


@pytest.fixture
def resolver(project: Path) -> BaseMentionResolver:
    """Return a resolver for the project, with a bundle as apps register it."""
    resolver = BaseMentionResolver(base_path=project)
    resolver.register_bundle("team", SimpleNamespace(base_path=project.parent / "bundle", source_base_paths={}))
    return resolver


def test_mentions_are_found_once() -> None:
    """Every mention is returned once, in order; code has none."""
    assert parse_mentions("@a.md, then `@b.md` and @team:c.md, @a.md.") == ["@a.md", "@team:c.md"]


def test_a_resolver_knows_files_and_bundles(resolver: BaseMentionResolver, project: Path) -> None:
    """A path is below the folder or the root of its bundle; `..`, unknown names and missing files are none."""
    assert isinstance(resolver, MentionResolverProtocol)
    assert resolver.resolve("@docs/rules") == project / "docs" / "rules.md"
    assert resolver.resolve("@team:style.md") == project.parent / "bundle" / "style.md"
    for missing in ("@../bundle/style.md", "@other:style.md", "@nothing.md"):
        assert resolver.resolve(missing) is None


def test_the_root_of_a_namespace_comes_first(project: Path) -> None:
    """A bundle that was composed of several knows the root of each by its name."""
    bundle = SimpleNamespace(base_path=Path("/nowhere"), source_base_paths={"team": project / "docs"})
    assert BaseMentionResolver({"team": bundle}, project).resolve("@team:rules.md") == project / "docs" / "rules.md"


async def test_files_are_followed(resolver: BaseMentionResolver, project: Path) -> None:
    """Files that files mention are loaded too, and a content that was there before is not returned again."""
    contents = ContentDeduplicator()
    results = await load_mentions("See @notes.md and @gone.md", resolver, contents)
    assert [(one.mention, one.found, one.content) for one in results] == [
        ("@notes.md", True, "Read @docs/rules and @docs/copy.md"),
        ("@gone.md", False, None),
        ("@docs/rules", True, "Be brief."),
        ("@docs/copy.md", True, None),
    ]
    assert results[1].failure_reason == "not_found"
    [_, rules] = contents.get_unique_files()
    assert rules.paths == [project / "docs" / "rules.md", project / "docs" / "copy.md"]
    assert contents.is_seen("Be brief.")
    assert rules.content_hash in contents.get_known_hashes()
    shallow = await load_mentions("See @notes.md", resolver, max_depth=1)
    assert [one.mention for one in shallow] == ["@notes.md"]


async def test_files_that_mention_each_other_end(resolver: BaseMentionResolver, project: Path) -> None:
    """A circle of mentions is followed once."""
    (project / "a.md").write_text("@b.md", encoding="utf-8")
    (project / "b.md").write_text("@a.md", encoding="utf-8")
    results = await load_mentions("@a.md", resolver, max_depth=100)
    assert {one.mention for one in results} == {"@a.md", "@b.md"}
    assert len(results) <= 3


async def test_a_path_beside_the_text(resolver: BaseMentionResolver, project: Path) -> None:
    """A plain path that the resolver does not find is looked for beside the text."""
    [found] = await load_mentions("@rules", resolver, relative_to=project / "docs")
    assert found.resolved_path == project / "docs" / "rules.md"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read(resolver: BaseMentionResolver, project: Path) -> None:
    """The reason of a file without permission is not that it is missing."""
    (project / "notes.md").chmod(0)
    [found] = await load_mentions("@notes.md", resolver)
    assert (found.found, found.failure_reason) == (False, "permission_denied")


async def test_a_folder_is_listed(resolver: BaseMentionResolver, project: Path) -> None:
    """A folder's content is its listing."""
    [found] = await load_mentions("@docs", resolver)
    assert (found.is_directory, found.content) == (True, "FILE copy.md\nFILE rules.md")
    assert format_directory_listing(project) == "DIR docs\nFILE notes.md"


async def test_blocks_come_before_the_text(resolver: BaseMentionResolver, project: Path) -> None:
    """The instruction stays as it is; what was given before is not given again."""
    contents = ContentDeduplicator()
    expanded = await expand_mentions_in_instruction("Follow @team:style.md", resolver=resolver, deduplicator=contents)
    path = project.parent / "bundle" / "style.md"
    block = f'<context_file paths="@team:style.md → {path}">\nShort words.\n</context_file>'
    assert expanded == f"{block}\n\nFollow @team:style.md"
    again = "Follow @team:style.md again"
    assert await expand_mentions_in_instruction(again, resolver=resolver, deduplicator=contents) == again
    assert format_context_block(contents, {"@team:style.md": path}) == block
