"""What will be installed is in the cache before anybody asks, and nothing depends on it."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from amplifier_digital_twin.services.foresight import Foresight, likely, projects_in
from amplifier_digital_twin.services.foresight_process import ForesightProcess
from amplifier_digital_twin.services.host_index import HostIndex, Location
from amplifier_digital_twin.services.index_cache import IndexCache
from amplifier_digital_twin.services.index_pages import IndexFile

MakeWheel = Callable[..., Path]
Serve = Callable[..., Awaitable[Any]]
JSON = "application/vnd.pypi.simple.v1+json"


def _repository(folder: Path) -> Path:
    """Make a repository with a project of its own, and another one below that this one needs."""
    below = folder / "parts" / "below"
    below.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "Whole"\ndependencies = ["below", "helper[more]>=1"]\n[build-system]\nrequires = ["tool"]\n',
        encoding="utf-8",
    )
    (below / "pyproject.toml").write_text(
        '[project]\nname = "below"\ndependencies = ["deep", "windows-only; sys_platform == \'win32\'"]\n',
        encoding="utf-8",
    )
    (folder / "parts" / "pyproject.toml").write_text("this is = no [toml", encoding="utf-8")
    return folder


async def _look(world: Any, tmp_path: Path, *packages: str) -> HostIndex:
    upstream = HostIndex([Location.parse("index", f"{world.address}/simple")], {})
    try:
        repositories = [_repository(tmp_path / "repository")]
        await Foresight(upstream, IndexCache(tmp_path / "cache"), packages, repositories).look()
    finally:
        await upstream.close()
    return upstream


@pytest.fixture
def _published(world: Any, make_wheel: MakeWheel) -> None:
    more = ["Provides-Extra: more", "Requires-Dist: extra; extra == 'more'", "Requires-Dist: not-asked; extra == 'no'"]
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world", headers=more)]
    for name in ("extra", "deep", "tool", "not-asked", "windows-only", "below", "whole", "own"):
        world.files[name] = [make_wheel(name, "1.0", folder="world")]


@pytest.mark.usefixtures("_published")
async def test_everything_that_is_needed_is_foreseen(serve: Serve, world: Any, tmp_path: Path) -> None:
    """What repositories need, are built with, and what that needs, is installed although the world is gone."""
    await _look(world, tmp_path)
    world.status = 500
    asked = len(world.asked)
    served = await serve({}, f"{world.address}/simple")
    code, said = await served.install("uv", "helper[more]", "deep", "tool")
    assert code == 0, said
    assert served.text("extra") == "WHAT = '1.0'\n"
    assert len(world.asked) == asked
    verdicts = {(line["verdict"], line["path"]) for line in served.decisions()}
    assert ("allow", "/simple/helper/") in verdicts


@pytest.mark.usefixtures("_published")
async def test_own_names_are_never_asked_for(world: Any, tmp_path: Path) -> None:
    """Neither a package of the profile nor a project of a repository, and nothing that is not needed here."""
    await _look(world, tmp_path, "own")
    pages = {path.split("/")[2] for path in world.asked if path.startswith("/simple/")}
    assert pages == {"helper", "extra", "deep", "tool"}


@pytest.mark.usefixtures("_published")
async def test_foreseen_file_that_is_not_what_was_promised(serve: Serve, world: Any, tmp_path: Path) -> None:
    """A file whose hash is another one is not kept; it is asked for again, and refused again."""
    world.is_lying = True
    await _look(world, tmp_path)
    served = await serve({}, f"{world.address}/simple")
    assert (await served.install("uv", "deep"))[0] != 0
    world.is_lying = False
    code, said = await served.install("uv", "deep")
    assert code == 0, said


@pytest.mark.usefixtures("_published")
async def test_foreseen_page_that_is_old(
    serve: Serve, world: Any, make_wheel: MakeWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was foreseen long ago is asked for again; only when that fails it is used, and the log says so."""
    await _look(world, tmp_path)
    monkeypatch.setattr("amplifier_digital_twin.services.package_index.PAGE_LIFETIME", -1.0)
    served = await serve({}, f"{world.address}/simple")
    world.status = 503
    assert b"deep-1.0" in (await served.get("/simple/deep/", JSON))[2]
    errors = [line["reason"] for line in served.decisions() if line["verdict"] == "error"]
    assert "is used" in errors[-1]
    world.status = None
    world.files["deep"].append(make_wheel("deep", "2.0", folder="world"))
    assert b"deep-2.0" in (await served.get("/simple/deep/", JSON))[2]


async def test_world_that_is_down_is_no_fault(world: Any, tmp_path: Path) -> None:
    """What cannot be fetched is left to whoever needs it."""
    world.status = 500
    await _look(world, tmp_path)
    assert not (tmp_path / "cache" / "shown").exists()


@pytest.mark.usefixtures("_published")
async def test_process_fills_the_cache_and_ends(world: Any, tmp_path: Path) -> None:
    """It finds the host's index itself, and ends when it is done."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_DEFAULT_INDEX": f"{world.address}/simple"}
    if "PYTHONPATH" in os.environ:
        environ["PYTHONPATH"] = os.environ["PYTHONPATH"]
    process = ForesightProcess(tmp_path / "home", ["own"], [_repository(tmp_path / "repository")], environ)
    await process.done()
    await process.close()
    await process.close()
    assert {"/simple/deep/", "/files/extra-1.0-py3-none-any.whl"} <= set(world.asked)
    assert len(list((tmp_path / "home" / "index").glob("shown/*/*"))) == 4


async def test_process_ends_with_its_keeper(world: Any, tmp_path: Path) -> None:
    """Closed before it has done anything, it ends at once and leaves nothing half written."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_DEFAULT_INDEX": f"{world.address}/simple"}
    process = ForesightProcess(tmp_path / "home", [], [_repository(tmp_path / "repository")], environ)
    await process.close()
    assert [path for path in tmp_path.glob("home/index/files/*") if path.is_file()] == []


def _file(filename: str, **more: Any) -> IndexFile:
    return IndexFile(filename, f"https://index.example/{filename}", {"sha256": "0" * 64}, **more)


def test_likely_is_what_an_installer_takes() -> None:
    """The highest release that fits and runs here: none that is yanked, before its time, or for other machines."""
    files = [
        _file("x-1.0-py3-none-any.whl"),
        _file("x-1.10-py3-none-any.whl"),
        _file("x-1.9-py3-none-any.whl"),
        _file("x-2.0rc1-py3-none-any.whl"),
        _file("x-2.1-py3-none-any.whl", yanked="broken"),
        _file("x-2.2-cp27-cp27m-win32.whl"),
        _file("x-2.3-py3-none-any.whl", requires_python=">=99"),
        _file("x-2.4-py3-none-any.whl", requires_python="whatever"),
        _file("x-odd-py3-none-any.whl"),
        _file("x-3.0.tar.gz"),
    ]
    assert likely(files, SpecifierSet("")) == files[1]
    assert likely(files, SpecifierSet("<1.10")) == files[2]
    assert likely(files, SpecifierSet(">=3")) is None
    assert likely([], SpecifierSet("")) is None


def test_projects_of_a_repository(tmp_path: Path) -> None:
    """Projects are found where they usually lie; what cannot be read, or is hidden, is none."""
    folder = _repository(tmp_path / "repository")
    hidden = folder / ".venv"
    hidden.mkdir()
    (hidden / "pyproject.toml").write_text('[project]\nname = "hidden"\n', encoding="utf-8")
    found = {project.name: project for project in projects_in(folder)}
    assert set(found) == {"whole", "below"}
    assert (found["whole"].is_whole, found["whole"].tools, found["below"].is_whole) == (True, ("tool",), False)
    assert projects_in(tmp_path / "nowhere") == []


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    """What a page says of one file is kept for its owner and project; a key that is none finds nothing."""
    cache = IndexCache(tmp_path)
    file = _file("x-1.0-py3-none-any.whl", requires_python=">=3", yanked="")
    cache.keep_entry("owner", "x", "0" * 64, file)
    assert cache.entry("owner", "x", "0" * 64) == file
    assert cache.entry("other", "x", "0" * 64) is None
    assert cache.entry("owner", "x", "../x/" + "0" * 64) is None
    (tmp_path / "entries" / "owner" / "x" / ("0" * 64)).write_text(json.dumps({"strange": 1}), encoding="utf-8")
    assert cache.entry("owner", "x", "0" * 64) is None
