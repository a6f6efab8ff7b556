"""The cache of fetched sources."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from amplifier_foundation.sources.cache import Cache, CacheEntry, Origin
from amplifier_foundation.sources.content import META_NAME
from amplifier_foundation.sources.fetched import SourceError, SourceIntegrityError

ORIGIN = Origin("https://h/r", "main", "c" * 40)


async def make(folder: Path) -> Origin:
    (folder / "file").write_bytes(b"content")
    return ORIGIN


@pytest.fixture
def entry(tmp_path: Path) -> CacheEntry:
    return Cache(tmp_path / "home" / "cache").entry("r", "https://h/r@main")


def listed(entry: CacheEntry) -> list[str]:
    return sorted(path.name for path in entry.folder.parent.iterdir() if not path.name.endswith(".lock"))


async def test_an_entry_is_called_as_the_published_program_calls_it(entry: CacheEntry) -> None:
    """The folder is the repository's name and the first digits of the hash of `url@ref`."""
    assert entry.folder.name == "r-8f28f5d75a64b2a8"


@pytest.mark.parametrize("name", ["../..", ".hidden", "a b/c", "", "x" * 300])
def test_no_name_leaves_the_cache_or_hides(tmp_path: Path, name: str) -> None:
    """Whatever a source is called, its entry is a plain folder in the cache."""
    folder = Cache(tmp_path).entry(name, "identity").folder

    assert folder.parent == tmp_path
    assert folder.name[0] not in ".-"
    assert len(folder.name) < 100


async def test_the_record_has_the_published_shape_and_the_hash(entry: CacheEntry) -> None:
    """The record in an entry has the published keys and the content hash; it is read back as it was written."""
    assert await entry.read() is None
    copy = await entry.fill(make)

    record = json.loads((entry.folder / META_NAME).read_bytes())
    assert list(record) == ["cached_at", "ref", "commit", "git_url", "sha256"]
    assert record["commit"] == ORIGIN.commit
    assert copy == await entry.read()
    assert not copy.is_changed


async def test_an_entry_of_the_published_program_is_used(entry: CacheEntry) -> None:
    """A record without a hash is one of the published program, and as good."""
    entry.folder.mkdir(parents=True)
    (entry.folder / META_NAME).write_text(
        json.dumps({"cached_at": "then", "ref": "main", "commit": "c", "git_url": "u"}), encoding="utf-8"
    )

    copy = await entry.read()

    assert copy is not None
    assert (copy.origin, copy.recorded, copy.is_changed) == (Origin("u", "main", "c"), None, False)


@pytest.mark.parametrize("record", [None, b"", b'{"cached_at"', b"[]"])
async def test_a_folder_without_a_whole_record_is_made_anew(entry: CacheEntry, record: bytes | None) -> None:
    """What a killed program left in an entry's place is never used: the entry is made as if nothing was there."""
    entry.folder.mkdir(parents=True)
    (entry.folder / "half").write_bytes(b"")
    if record is not None:
        (entry.folder / META_NAME).write_bytes(record)

    assert await entry.read() is None
    await entry.fill(make)

    assert sorted(path.name for path in entry.folder.iterdir()) == [META_NAME, "file"]
    assert listed(entry) == [entry.folder.name]


async def test_a_change_in_the_cache_is_noticed(entry: CacheEntry) -> None:
    """The hash is that of what is there now, and the copy knows that it was another one."""
    before = await entry.fill(make)
    (entry.folder / "file").write_bytes(b"other")

    after = await entry.read()

    assert after is not None
    assert after.is_changed
    assert after.sha256 != before.sha256


@pytest.mark.parametrize("failure", [SourceError("no"), asyncio.CancelledError(), KeyError("bug")])
async def test_a_failure_leaves_nothing(entry: CacheEntry, failure: BaseException) -> None:
    """When making an entry fails or is cancelled, nothing of it stays, and the next one makes it."""

    async def fail(folder: Path) -> Origin:
        await make(folder)
        raise failure

    with pytest.raises(type(failure)):
        await entry.fill(fail)
    assert listed(entry) == []

    await entry.fill(make)
    assert listed(entry) == [entry.folder.name]


async def test_a_refused_copy_is_not_kept(entry: CacheEntry) -> None:
    """What is not accepted never becomes an entry."""

    def refuse(sha256: str) -> None:
        raise SourceIntegrityError(sha256)

    with pytest.raises(SourceIntegrityError, match=r"^[0-9a-f]{64}$"):
        await entry.fill(make, accept=refuse)

    assert await entry.read() is None
    assert listed(entry) == []


async def test_one_makes_it_and_the_others_wait_and_use_it(entry: CacheEntry) -> None:
    """Of many who want an entry at once one makes it; the others are told that they wait, and get the same."""
    made: list[Path] = []
    waited = asyncio.Semaphore(0)

    async def slowly(folder: Path) -> Origin:
        made.append(folder)
        for _ in range(4):
            await waited.acquire()
        return await make(folder)

    copies = await asyncio.gather(*(entry.fill(slowly, on_wait=waited.release) for _ in range(5)))

    assert len(made) == 1
    assert len(set(copies)) == 1


async def test_made_anew_it_replaces_the_old_one(entry: CacheEntry) -> None:
    """With `anew` a complete entry is replaced as a whole, and the old one is removed."""
    await entry.fill(make)

    async def other(folder: Path) -> Origin:
        assert (entry.folder / "file").exists()  # there until the new one is complete
        (folder / "new").write_bytes(b"")
        return ORIGIN

    await entry.fill(other, anew=True)

    assert sorted(path.name for path in entry.folder.iterdir()) == [META_NAME, "new"]
    assert listed(entry) == [entry.folder.name]


async def test_leftovers_of_killed_processes_are_swept(tmp_path: Path, entry: CacheEntry) -> None:
    """Unfinished folders that nobody works on are removed, of any entry; those somebody works on stay."""
    cache = entry.folder.parent
    other = Cache(cache).entry("other", "x")
    for name in (entry.folder.name, "gone-0123456789abcdef"):
        (cache / f".{name}.0123456789ab.tmp" / "sub").mkdir(parents=True)

    async def sweeping(folder: Path) -> Origin:
        await entry.fill(make)
        assert folder.exists()
        return await make(folder)

    await other.fill(sweeping)

    assert listed(entry) == sorted([entry.folder.name, other.folder.name])


async def test_what_a_source_calls_like_the_record_is_replaced(entry: CacheEntry) -> None:
    """A source cannot bring its own record, nor a folder or link in its place."""
    outside = entry.folder.parent.parent / "outside"

    async def folder_of_that_name(folder: Path) -> Origin:
        (folder / META_NAME / "x").mkdir(parents=True)
        return ORIGIN

    async def link_of_that_name(folder: Path) -> Origin:
        os.symlink(outside, folder / META_NAME)
        return ORIGIN

    await entry.fill(folder_of_that_name)
    await entry.fill(link_of_that_name, anew=True)

    assert (entry.folder / META_NAME).is_file()
    assert not outside.exists()


async def test_a_home_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """Where nothing can be kept, the error names the folder and the way out."""
    (tmp_path / "home").write_bytes(b"")

    with pytest.raises(SourceError, match=r"home/cache: .*cannot be saved.*set AMPLIFIER_HOME"):
        await Cache(tmp_path / "home" / "cache").entry("r", "x").fill(make)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_complete_entry_is_used_in_a_read_only_home(entry: CacheEntry) -> None:
    """Reading needs no lock: what is in the cache can be used where nothing can be written."""
    await entry.fill(make)
    entry.folder.parent.chmod(0o500)
    try:
        assert await entry.read() is not None
        with pytest.raises(SourceError, match="cannot be saved"):
            await Cache(entry.folder.parent).entry("other", "x").fill(make)
    finally:
        entry.folder.parent.chmod(0o700)
