"""Installed packages as sources."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import amplifier_foundation
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import SourceNotFoundError
from amplifier_foundation.sources.fetcher import Fetcher


@pytest.fixture
def fetcher(home: Home) -> Fetcher:
    return Fetcher(home, offline=True, locked=True, environ={})


def install(site: Path, name: str, files: list[str], top_level: str | None = None) -> None:
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    if top_level is not None:
        (info / "top_level.txt").write_text(top_level, encoding="utf-8")
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text("raise SystemExit('imported')", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(str(folder))
    return folder


async def test_the_folder_of_an_installed_package(fetcher: Fetcher, site: Path) -> None:
    """An installed distribution is the folder of its package, which is not imported; parts of it can be named."""
    install(site, "my-bundle", ["my_bundle/__init__.py", "my_bundle/behaviors/b.yaml", "other/__init__.py"])

    whole = await fetcher.fetch("my-bundle")
    part = await fetcher.fetch("my-bundle/behaviors/b.yaml")

    assert (whole.kind, whole.path, whole.is_local) == ("package", site / "my_bundle", True)
    assert part.path == site / "my_bundle" / "behaviors" / "b.yaml"
    assert "my_bundle" not in sys.modules
    assert fetcher.fetched == {}


@pytest.mark.parametrize("top_level", [None, "elsewhere\n"])
async def test_a_package_that_is_called_otherwise(fetcher: Fetcher, site: Path, top_level: str | None) -> None:
    """A distribution whose package has another name is found by its own record."""
    install(site, "my-dist", ["elsewhere/__init__.py"], top_level)

    assert (await fetcher.fetch("my-dist")).path == site / "elsewhere"


async def test_an_editable_install(fetcher: Fetcher) -> None:
    """A package that is installed in place is where its files are: this one."""
    fetched = await fetcher.fetch("amplifier-foundation")

    assert fetched.path == Path(amplifier_foundation.__path__[0])


async def test_what_is_not_installed(fetcher: Fetcher, site: Path) -> None:
    """A name that is no package, or one without code, is an error that says what can be done."""
    install(site, "empty-dist", [])

    with pytest.raises(SourceNotFoundError, match=r"no package 'no-such-package' is installed.*write ./path"):
        await fetcher.fetch("no-such-package")
    with pytest.raises(SourceNotFoundError, match="has no folder of code"):
        await fetcher.fetch("empty-dist")
    with pytest.raises(SourceNotFoundError, match="there is no 'x' in"):
        await fetcher.fetch("amplifier-foundation/x")
