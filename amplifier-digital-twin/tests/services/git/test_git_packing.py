"""Loose objects are packed once for all clones, and nothing but what the refs lead to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from amplifier_digital_twin.profile.model import Repository

Git = Callable[..., str]
Serve = Callable[..., Awaitable[Any]]
URL = "https://github.com/example/amplifier-core"


def packs(tmp_path: Path) -> list[Path]:
    """Return the packs of everything that is exported below a folder."""
    return sorted(path for path in tmp_path.glob("**/objects/pack/*.pack") if "source tree" not in str(path))


def objects(git: Git, pack: Path) -> set[str]:
    """Return the names of the objects in a pack."""
    words = (line.split() for line in git(pack.parent, "verify-pack", "-v", str(pack)).splitlines())
    return {line[0] for line in words if len(line) > 3 and line[1] in ("commit", "tree", "blob", "tag")}


async def test_packed_once_for_many_clones(serve: Serve, repository: Path, git: Git, tmp_path: Path) -> None:
    """Clones at the same time wait for one pack, and are whole; the source is not touched."""
    (repository / "new.txt").write_text("uncommitted\n", encoding="utf-8")
    loose = git(repository, "count-objects", "-v")
    served = await serve(Repository(repository, URL))
    served.mirror.expect_clones()
    places = [tmp_path / f"clone{number}" for number in range(3)]
    await asyncio.gather(*(served.git("clone", "-q", URL, str(place)) for place in places))
    for place in places:
        assert (place / "new.txt").read_text(encoding="utf-8") == "uncommitted\n"
        git(place, "fsck", "--full", "--strict")
    made = [path for path in packs(tmp_path) if not any(place in path.parents for place in places)]
    assert len(made) == 1
    assert git(repository, "count-objects", "-v") == loose


async def test_packs_hold_no_more_than_refs_lead_to(serve: Serve, repository: Path, git: Git, tmp_path: Path) -> None:
    """What the source holds besides is not copied, nor what it has packed itself."""
    (repository / "hidden.txt").write_text("never committed\n", encoding="utf-8")
    hidden = git(repository, "hash-object", "-w", "hidden.txt")
    (repository / "hidden.txt").unlink()
    served = await serve(Repository(repository, URL))
    await served.git("clone", "-q", URL, str(tmp_path / "clone"))
    (made,) = (path for path in packs(tmp_path) if tmp_path / "clone" not in path.parents)
    assert objects(git, made)
    assert hidden not in objects(git, made)
    git(repository, "gc", "-q")
    await served.mirror.prepare()
    await served.git("clone", "-q", URL, str(tmp_path / "again"))
    left = [path for path in packs(tmp_path) if not {tmp_path / "clone", tmp_path / "again"} & set(path.parents)]
    (lent,) = repository.glob(".git/objects/pack/*.pack")
    assert objects(git, lent)
    assert not objects(git, lent) & {name for path in left for name in objects(git, path)}


async def test_a_pack_that_cannot_be_made_is_done_without(
    serve: Serve, repository: Path, tmp_path: Path, caplog: Any
) -> None:
    """Clones are answered from what there is."""
    served = await serve(Repository(repository, URL))
    (folder,) = (path.parent for path in tmp_path.glob("**/*.git/packed-refs"))
    (folder / "objects" / "pack").rmdir()
    (folder / "objects" / "pack").write_text("in the way", encoding="utf-8")
    await served.git("clone", "-q", URL, str(tmp_path / "clone"))
    assert (tmp_path / "clone" / "a.txt").exists()
    assert "cannot be packed" in caplog.text
