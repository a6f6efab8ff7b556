"""Sources that a lock file pins."""

from __future__ import annotations

import shutil
import zipfile
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import Fetched, OfflineError, Pin, SourceIntegrityError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]


def pin_of(fetched: Fetched) -> dict[str, Pin]:
    assert fetched.sha256 is not None
    return {fetched.uri: Pin(fetched.commit, fetched.sha256)}


async def test_a_pin_brings_back_the_commit(home: Home, environ: Environ, repository: Any) -> None:
    """With a pin the recorded commit is fetched, though the branch went on; the newest stays in its own entry."""
    pins = pin_of(await Fetcher(home, environ=environ).fetch(repository.uri))
    repository.commit({"later": "x"})
    newest = await Fetcher(home, environ=environ, refresh=True).fetch(repository.uri)

    pinned = await Fetcher(home, environ=environ, pins=pins, locked=True).fetch(repository.uri)

    assert pinned.commit == pins[repository.uri].commit != newest.commit
    assert pinned.sha256 == pins[repository.uri].sha256
    assert pinned.root != newest.root
    assert (newest.root / "later").exists()
    assert not (pinned.root / "later").exists()


async def test_a_copy_that_is_what_the_pin_says_is_used(home: Home, environ: Environ, repository: Any) -> None:
    """What is in the cache already is not fetched again for a pin, so that it works without the network."""
    first = await Fetcher(home, environ=environ).fetch(repository.uri)
    shutil.rmtree(repository.folder)

    again = await Fetcher(home, environ=environ, pins=pin_of(first), locked=True, offline=True).fetch(repository.uri)

    assert again == first


async def test_another_machine_gets_the_same_content(home: Home, environ: Environ, repository: Any) -> None:
    """The content of a commit has one hash, however and wherever it is fetched."""
    repository.commit({"run.sh": "x", "d/é": "y"})
    first = await Fetcher(home, environ=environ).fetch(repository.uri)
    elsewhere = Home(home.path.with_name("other home"))

    second = await Fetcher(elsewhere, environ=environ, pins=pin_of(first)).fetch(repository.uri)

    assert second.sha256 == first.sha256
    assert second.commit == first.commit


async def test_other_content_than_the_pin_says_is_refused(home: Home, environ: Environ, repository: Any) -> None:
    """When the content of a commit is not the recorded one, both hashes are named and nothing of it is kept."""
    first = await Fetcher(home, environ=environ).fetch(repository.uri)
    wrong = Pin(first.commit, "0" * 64)

    with pytest.raises(SourceIntegrityError, match=f"{'0' * 64}.*{first.sha256}") as caught:
        await Fetcher(home, environ=environ, pins={repository.uri: wrong}).fetch(repository.uri)

    assert caught.value.code == "source_changed"
    assert [path.name for path in home.cache.iterdir() if path.suffix != ".lock"] == [first.root.name]


async def test_a_changed_copy_is_not_taken_for_the_pinned_one(home: Home, environ: Environ, repository: Any) -> None:
    """Who changes the copy of a branch gets the real content from its source; who changes that is told."""
    first = await Fetcher(home, environ=environ).fetch(repository.uri)
    (first.root / "bundle.md").write_bytes(b"evil")

    real = await Fetcher(home, environ=environ, pins=pin_of(first)).fetch(repository.uri)
    assert real.sha256 == first.sha256
    assert real.root != first.root

    (real.root / "bundle.md").write_bytes(b"evil")
    with pytest.raises(SourceIntegrityError, match="was changed: delete that folder"):
        await Fetcher(home, environ=environ, pins=pin_of(first)).fetch(repository.uri)


async def test_a_pin_that_contradicts_its_source_is_refused(home: Home, environ: Environ, repository: Any) -> None:
    """A source that names a commit cannot be led to another one by a lock file."""
    named = repository.git("rev-parse", "main")
    other = repository.commit({"x": ""})
    pinned = await Fetcher(home, environ=environ).fetch(f"{repository.uri}@{other}")
    assert pinned.sha256 is not None
    uri = f"{repository.uri}@{named}"

    with pytest.raises(SourceIntegrityError, match=f"another commit for it, {other}"):
        await Fetcher(home, environ=environ, pins={uri: Pin(other, pinned.sha256)}).fetch(uri)


async def test_parts_share_the_pinned_copy(home: Home, environ: Environ, repository: Any) -> None:
    """Two parts of one repository that are pinned to the same commit lie in the same copy."""
    repository.commit({"a/pyproject.toml": "", "b/pyproject.toml": ""})
    uris = [f"{repository.uri}#subdirectory={part}" for part in "ab"]
    first = Fetcher(home, environ=environ)
    pins = {uri: Pin(one.commit, one.sha256 or "") for uri in uris if (one := await first.fetch(uri))}
    repository.commit({"later": ""})
    elsewhere = Home(home.path.with_name("other"))
    second = Fetcher(elsewhere, environ=environ, pins=pins, locked=True)

    roots = {(await second.fetch(uri)).root for uri in uris}

    assert len(roots) == 1


async def test_a_pinned_download(home: Home, environ: Environ, server: Any) -> None:
    """A file that is another one now is refused; the cached one that the pin means is still used."""
    uri = f"{server.url}/b.md"
    (server.folder / "b.md").write_bytes(b"1")
    first = await Fetcher(home, environ=environ).fetch(uri)
    (server.folder / "b.md").write_bytes(b"2")

    assert await Fetcher(home, environ=environ, pins=pin_of(first)).fetch(uri) == first
    elsewhere = Home(home.path.with_name("other"))
    with pytest.raises(SourceIntegrityError, match="something else: update the lock file"):
        await Fetcher(elsewhere, environ=environ, pins=pin_of(first)).fetch(uri)
    (server.folder / "b.md").write_bytes(b"1")
    assert (await Fetcher(elsewhere, environ=environ, pins=pin_of(first)).fetch(uri)).path.read_bytes() == b"1"


async def test_a_pinned_local_archive(home: Home, environ: Environ, server: Any) -> None:
    """An archive that was packed anew with the same content is what the pin says; other content is refused."""
    path = server.folder / "a.zip"
    uri = f"zip+file://{path}"

    def pack(content: str, year: int) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("bundle.md", (year, 1, 1, 0, 0, 0)), content)

    pack("1", 2000)
    first = await Fetcher(home, environ=environ).fetch(uri)
    pack("1", 2001)
    assert (await Fetcher(home, environ=environ, pins=pin_of(first)).fetch(uri)).sha256 == first.sha256

    pack("2", 2001)
    elsewhere = Home(home.path.with_name("other"))
    with pytest.raises(SourceIntegrityError):
        await Fetcher(elsewhere, environ=environ, pins=pin_of(first)).fetch(uri)


async def test_a_pinned_commit_that_is_not_in_the_cache_is_not_fetched_offline(home: Home, environ: Environ) -> None:
    """Without the network a pin can only be met from the cache."""
    uri = "git+https://git.example/o/r"

    with pytest.raises(OfflineError):
        await Fetcher(home, environ=environ, pins={uri: Pin("a" * 40, "b" * 64)}, offline=True).fetch(uri)
