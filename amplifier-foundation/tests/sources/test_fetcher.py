"""Fetching as a whole: once, offline, only what is locked."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import NotLockedError, OfflineError, SourceError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]
FakeGit = Callable[[str], Path]


async def test_the_same_source_at_the_same_time_is_fetched_once(
    home: Home, environ: Environ, repository: Any, fake_git: FakeGit
) -> None:
    """Many who want parts of one repository at once wait for one clone."""
    repository.commit({f"m{number}/pyproject.toml": "" for number in range(5)})
    git = shutil.which("git")
    fake = fake_git(f'exec "{git}" "$@"')
    fetcher = Fetcher(home, environ=environ)
    parts = [f"{repository.uri}#subdirectory=m{number}" for number in range(5)]

    fetched = await asyncio.gather(*(fetcher.fetch(uri) for uri in [*parts, *parts, repository.uri]))

    calls = (fake / "calls").read_text(encoding="utf-8").splitlines()
    assert sum(" clone " in call for call in calls) == 1
    assert len({one.root for one in fetched}) == 1
    assert set(fetcher.fetched) == {*parts, repository.uri}


async def test_a_failed_fetch_can_be_tried_again(home: Home, environ: Environ, repository: Any) -> None:
    """A failure is not remembered: the same Fetcher fetches what is there now."""
    fetcher = Fetcher(home, environ=environ)
    uri = f"{repository.uri}@later"
    with pytest.raises(SourceError):
        await fetcher.fetch(uri)

    repository.git("branch", "later")

    assert (await fetcher.fetch(uri)).commit == repository.git("rev-parse", "later")


async def test_callers_that_wait_share_a_failure(home: Home, environ: Environ, server: Any) -> None:
    """A file that is missing is asked for once, however many callers want it; a cancelled one disturbs no other."""
    server.answers["/b.md"] = [(404, {}, b"")]
    fetcher = Fetcher(home, environ=environ)
    callers = [asyncio.ensure_future(fetcher.fetch(f"{server.url}/b.md")) for _ in range(5)]
    await asyncio.sleep(0)
    callers[2].cancel()

    results = await asyncio.gather(*callers, return_exceptions=True)

    assert [isinstance(result, asyncio.CancelledError) for result in results] == [False, False, True, False, False]
    assert all(isinstance(results[index], SourceError) for index in (0, 1, 3, 4))
    assert len(server.asked) == 1


async def test_offline_uses_the_cache_alone(home: Home, environ: Environ, server: Any) -> None:
    """Without the network what is in the cache is used, and the rest is an error that says what to run."""
    (server.folder / "b.md").write_bytes(b"x")
    online = await Fetcher(home, environ=environ).fetch(f"{server.url}/b.md")
    offline = Fetcher(home, environ=environ, offline=True)

    assert await offline.fetch(f"{server.url}/b.md") == online
    for uri in (f"{server.url}/c.md", f"zip+{server.url}/a.zip", "git+https://git.example/o/r"):
        with pytest.raises(OfflineError, match=r"not in the cache.*run once without --offline"):
            await offline.fetch(uri)
    assert server.asked == ["/b.md"]
    assert OfflineError.code == "offline"


async def test_offline_fetches_what_needs_no_network(home: Home, environ: Environ, repository: Any) -> None:
    """A repository on this machine can be cloned without the network."""
    assert (await Fetcher(home, environ=environ, offline=True).fetch(repository.uri)).commit


async def test_locked_refuses_what_has_no_pin(home: Home, environ: Environ, repository: Any) -> None:
    """With only locked sources allowed, one that the lock does not know is an error, even when it is in the cache."""
    await Fetcher(home, environ=environ).fetch(repository.uri)

    with pytest.raises(NotLockedError, match="not in the lock file") as caught:
        await Fetcher(home, environ=environ, locked=True).fetch(repository.uri)

    assert caught.value.code == "not_locked"


async def test_a_copy_that_was_changed_is_a_warning(home: Home, environ: Environ, repository: Any) -> None:
    """Without a pin a changed copy in the cache is used, with its real hash, and the user hears of it."""
    first = await Fetcher(home, environ=environ).fetch(repository.uri)
    (first.root / "bundle.md").write_bytes(b"other")
    fetcher = Fetcher(home, environ=environ)

    second = await fetcher.fetch(repository.uri)

    assert second.sha256 != first.sha256
    assert ["was changed since it was fetched" in warning for warning in fetcher.warnings] == [True]


async def test_progress_is_told(home: Home, environ: Environ, repository: Any) -> None:
    """What takes time is told when it begins; what is in the cache is silent."""
    said: list[str] = []

    for _ in range(2):
        await Fetcher(home, environ=environ, on_progress=said.append).fetch(repository.uri)

    assert said == [f"fetching {repository.uri}"]


async def test_an_unwritable_home(home: Home, environ: Environ, repository: Any) -> None:
    """A home that cannot hold a cache is an error that names it."""
    home.path.write_bytes(b"")

    with pytest.raises(SourceError, match="fetched sources cannot be saved there"):
        await Fetcher(home, environ=environ).fetch(repository.uri)


async def test_a_source_that_makes_no_sense(home: Home) -> None:
    """What is no source is refused before anything is touched."""
    with pytest.raises(SourceError, match="is not a source"):
        await Fetcher(home).fetch("what:ever")

    assert not home.path.exists()


def test_importing_is_cheap() -> None:
    """Naming the Fetcher loads none of the libraries that only a fetch needs."""
    heavy = ["asyncio", "httpx2", "hashlib", "subprocess", "zipfile", "importlib.metadata", "ssl", "json"]
    code = (
        "import sys, amplifier_foundation.paths\n"
        "before = set(sys.modules)\n"
        "import amplifier_foundation.sources.fetcher\n"
        "print(*(set(sys.modules) - before))"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(heavy).isdisjoint(result.stdout.split())
