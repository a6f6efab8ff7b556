"""Small files and caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation import (
    CacheProviderProtocol,
    DiskCache,
    SimpleCache,
    parse_frontmatter,
    read_with_retry,
    read_yaml,
    write_with_backup,
    write_with_retry,
    write_yaml,
)
from amplifier_foundation.errors import DocumentError


async def test_yaml_comes_back(tmp_path: Path) -> None:
    """What is written is read again, in order; a file that is missing is None."""
    path = tmp_path / "new" / "settings.yaml"
    assert await read_yaml(path) is None
    await write_yaml(path, {"z": 1, "a": ["ü"]})
    assert path.read_text(encoding="utf-8").splitlines()[0] == "z: 1"
    assert await read_yaml(path) == {"z": 1, "a": ["ü"]}


async def test_malformed_yaml_has_a_line(tmp_path: Path) -> None:
    """The error of a file with any suffix names the file and the line."""
    path = tmp_path / "state.txt"
    path.write_text("a: 1\nb: [\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"state\.txt:3"):
        await read_yaml(path)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_front_matter(mark: str) -> None:
    """The mapping and the text after it are apart; a text without front matter is all text."""
    assert parse_frontmatter(f"{mark}---\nname: a\n---\n\n# Title\n") == ({"name": "a"}, "# Title")
    assert parse_frontmatter("# Title\n---\n") == ({}, "# Title\n---")


async def test_a_fault_that_passes_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails now and then succeeds; a missing file is not tried again."""
    path = tmp_path / "file"
    path.write_text("text", encoding="utf-8")
    read, failures = Path.read_text, [OSError(5, "I/O error"), OSError(5, "I/O error")]

    def sometimes(self: Path, *arguments: Any, **options: Any) -> str:
        if failures:
            raise failures.pop()
        return read(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", sometimes)
    assert await read_with_retry(path, initial_delay=0) == "text"
    failures.extend(OSError(5, "I/O error") for _ in range(3))
    with pytest.raises(OSError, match="I/O error"):
        await read_with_retry(path, initial_delay=0)
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        await read_with_retry(tmp_path / "missing", initial_delay=3600)


async def test_a_write_replaces_the_file(tmp_path: Path) -> None:
    """The new text takes the place of the old one, and no other file stays."""
    path = tmp_path / "file"
    for text in ("one", "two"):
        await write_with_retry(path, text)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"file": "two"}


def test_the_file_before_is_kept(tmp_path: Path) -> None:
    """A backup has what the file had before; the first write makes none."""
    path = tmp_path / "file.json"
    write_with_backup(path, "one")
    assert [one.name for one in tmp_path.iterdir()] == ["file.json"]
    write_with_backup(path, b"two", mode="wb", backup_suffix=".old")
    assert (path.read_text(), (tmp_path / "file.json.old").read_text()) == ("two", "one")
    with pytest.raises(TypeError, match="takes text, got bytes"):
        write_with_backup(path, b"three")


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_cache_keeps_values(kind: str, tmp_path: Path) -> None:
    """Values are kept by key until the cache is cleared."""
    cache = SimpleCache() if kind == "memory" else DiskCache(tmp_path / "cache")
    assert isinstance(cache, CacheProviderProtocol)
    assert cache.get("../a key") is None
    cache.set("../a key", {"x": [1, "ü"]})
    assert "../a key" in cache
    assert cache.get("../a key") == {"x": [1, "ü"]}
    assert sorted(tmp_path.iterdir()) == ([] if kind == "memory" else [tmp_path / "cache"])
    cache.clear()
    assert "../a key" not in cache


def test_a_damaged_entry_counts_as_missing(tmp_path: Path) -> None:
    """A file of the cache that cannot be read is ignored, and written again."""
    cache = DiskCache(tmp_path)
    cache.set("key", 1)
    [file] = tmp_path.glob("*.json")
    file.write_bytes(b"\xff{")
    assert cache.get("key") is None
    cache.set("key", 2)
    assert DiskCache(tmp_path).get("key") == 2
