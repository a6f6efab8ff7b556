"""Sources that lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import Fetched, SourceError, SourceNotFoundError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]


@pytest.fixture
def fetcher(home: Home, environ: Environ) -> Fetcher:
    return Fetcher(home, environ=environ, offline=True, locked=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    there = tmp_path / "my ü bundles"
    (there / "sub").mkdir(parents=True)
    (there / "b.yaml").write_bytes(b"")
    return there


async def test_a_whole_path_needs_neither_network_nor_lock(fetcher: Fetcher, home: Home, folder: Path) -> None:
    """A local source is used where it lies: nothing is copied, recorded or created."""
    fetched = await fetcher.fetch(str(folder))

    assert fetched == Fetched(str(folder), folder, folder, "file", is_local=True)
    assert fetcher.fetched == {}
    assert not home.path.exists()


@pytest.mark.parametrize(("uri", "name"), [("./b.yaml", "b.yaml"), ("./sub/../b.yaml", "b.yaml"), (".", "")])
async def test_relative_paths_start_at_the_base(
    fetcher: Fetcher, folder: Path, monkeypatch: pytest.MonkeyPatch, uri: str, name: str
) -> None:
    """`./` and `../` start at the folder that is given, wherever the program was started."""
    monkeypatch.chdir("/")

    assert (await fetcher.fetch(uri, base=folder)).path == folder / name
    assert (await fetcher.fetch("../b.yaml", base=folder / "sub")).path == folder / "b.yaml"


async def test_without_a_base_a_relative_path_is_refused(
    fetcher: Fetcher, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder the program happens to run in is never a base."""
    monkeypatch.chdir(folder)

    with pytest.raises(SourceError, match="is relative"):
        await fetcher.fetch("./b.yaml")


async def test_file_urls(fetcher: Fetcher, folder: Path) -> None:
    """A file URL may have a subdirectory and may be percent-encoded; a name spelled like that comes first."""
    (folder / "a%20b").mkdir()
    (folder / "a b").mkdir()

    assert (await fetcher.fetch(f"file://{folder}#subdirectory=sub")).path == folder / "sub"
    assert (await fetcher.fetch(f"file://{folder}/a%20b")).path == folder / "a%20b"
    (folder / "a%20b").rmdir()
    assert (await fetcher.fetch(f"file://{folder}/a%20b")).path == folder / "a b"


async def test_what_is_not_there(fetcher: Fetcher, folder: Path) -> None:
    """A missing file or part is an error of its own kind that names the whole path."""
    with pytest.raises(SourceNotFoundError, match=r"there is no file or folder .*/my ü bundles/none"):
        await fetcher.fetch("./none", base=folder)
    with pytest.raises(SourceNotFoundError, match="there is no 'none' in"):
        await fetcher.fetch(f"file://{folder}#subdirectory=none")
    with pytest.raises(SourceError):
        await fetcher.fetch(f"./{'x' * 5000}", base=folder)


async def test_a_part_that_leads_out_is_refused(fetcher: Fetcher, folder: Path) -> None:
    """A subdirectory may be a link inside its source, not one to the outside."""
    os.symlink("sub", folder / "in")
    os.symlink("/", folder / "out")

    assert (await fetcher.fetch(f"file://{folder}#subdirectory=in")).path == folder / "in"
    with pytest.raises(SourceError, match="leads out of"):
        await fetcher.fetch(f"file://{folder}#subdirectory=out")


async def test_a_symlinked_source_keeps_its_own_name(fetcher: Fetcher, folder: Path, tmp_path: Path) -> None:
    """A project that is reached through a link is used under the name it was given."""
    os.symlink(folder, tmp_path / "link")
    (tmp_path / "home").mkdir()

    assert (await fetcher.fetch("./b.yaml", base=tmp_path / "link")).path == tmp_path / "link" / "b.yaml"
    assert (await fetcher.fetch("../b.yaml", base=tmp_path / "link" / "sub")).path == tmp_path / "link" / "b.yaml"
    # Behind the link `..` is the folder above its target, as for every other program.
    assert (await fetcher.fetch("../home", base=tmp_path / "link")).path == tmp_path / "home"


async def test_the_user_s_home(home: Home, environ: Environ, folder: Path) -> None:
    """`~` is what HOME says; without it nothing is guessed."""
    environ["HOME"] = str(folder)
    assert (await Fetcher(home, environ=environ).fetch("~/sub")).path == folder / "sub"

    del environ["HOME"]
    with pytest.raises(SourceError, match="HOME is not set"):
        await Fetcher(home, environ=environ).fetch("~/sub")
