"""Installers get our wheels and the host's packages from the index of a universe, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

CLIENTS = ("uv", "pip")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_html", [False, True])
async def test_own_wheel_wins(
    start: Any, world: Any, make_wheel: Any, tmp_path: Path, client: str, is_html: bool
) -> None:
    """A wheel built here is installed although a newer one is published; its dependencies come from the world."""
    world.is_html = is_html
    world.files = {"own": [make_wheel("own", "9.0")], "needed": [make_wheel("needed", "2.0")]}
    make_wheel("own", "1.0", "built here", folder="wheels", headers=["Requires-Dist: needed"])
    universe = await start(f"{world.address}/simple", wheels=tmp_path / "wheels")
    code, said = await universe.install(client, "own")
    assert code == 0, said
    assert "built here" in universe.text("own")
    assert "2.0" in universe.text("needed")
    assert "/simple/own/" not in world.asked
    assert all(line["allowed"] for line in universe.log())


async def test_overridden_name_is_answered_only_here(start: Any, world: Any, make_wheel: Any, tmp_path: Path) -> None:
    """A name of the profile has no published version: not before its wheel is built, and not by an old address."""
    world.files = {"own": [make_wheel("own", "9.0")]}
    (tmp_path / "wheels").mkdir()
    universe = await start(f"{world.address}/simple", name="first")
    address = (await universe.page("own"))[0]["url"]
    universe = await start(f"{world.address}/simple", wheels=tmp_path / "wheels", names=["Own"], name="second")
    assert (await universe.get("/simple/own/"))[0] == 404
    assert (await universe.get(address))[0] == 404
    assert not universe.log()[-1]["allowed"]
    make_wheel("own", "1.0", folder="wheels")
    status, _, content = await universe.get("/at/any/simple/own/")
    assert (status, b"own-1.0" in content, b"9.0" in content) == (200, True, False)


async def test_downloads_are_shared_and_survive_the_world(start: Any, world: Any, make_wheel: Any) -> None:
    """What one universe fetched is installed by another when the world cannot be reached any more."""
    world.files = {"needed": [make_wheel("needed", "2.0")]}
    first = await start(f"{world.address}/simple")
    assert (await first.install("uv", "needed"))[0] == 0
    world.status = 503
    second = await start(f"{world.address}/simple")
    code, said = await second.install("uv", "needed")
    assert code == 0, said
    assert world.asked.count("/files/needed-2.0-py3-none-any.whl") == 1


async def test_one_download_for_many_at_once(start: Any, world: Any, make_wheel: Any) -> None:
    """Many requests for one file are one download, and each of them gets the whole of it."""
    wheel = make_wheel("needed", "2.0", os.urandom(300_000).hex())
    world.files = {"needed": [wheel]}
    universe = await start(f"{world.address}/simple")
    address = (await universe.page("needed"))[0]["url"]
    found = await asyncio.gather(*(universe.get(address) for _ in range(10)))
    assert {content for _, _, content in found} == {wheel.read_bytes()}
    assert world.asked.count(f"/files/{wheel.name}") == 1


async def test_file_with_another_hash_is_never_served(start: Any, world: Any, make_wheel: Any) -> None:
    """A file that is not what its page promised is not handed out, not even in part, and not kept."""
    world.files = {"needed": [make_wheel("needed", "2.0")]}
    world.is_lying = True
    universe = await start(f"{world.address}/simple")
    address = (await universe.page("needed"))[0]["url"]
    status, _, content = await universe.get(address)
    assert (status, b"sha256" in content) == (502, True)
    assert list((universe.config.cache / "incoming").iterdir()) == []
    world.is_lying = False
    assert (await universe.get(address))[0] == 200


async def test_ranges(start: Any, world: Any, make_wheel: Any, tmp_path: Path) -> None:
    """Parts of a file can be had, of ours and of published ones, as uv wants them for metadata."""
    published, own = make_wheel("needed", "2.0"), make_wheel("own", "1.0", folder="wheels")
    world.files = {"needed": [published]}
    universe = await start(f"{world.address}/simple", wheels=own.parent)
    addresses = {published: (await universe.page("needed"))[0]["url"], own: f"/packages/{own.name}"}
    for wheel, address in addresses.items():
        status, headers, content = await universe.get(address, range="bytes=10-19")
        assert (status, content) == (206, wheel.read_bytes()[10:20])
        assert headers["content-range"] == f"bytes 10-19/{wheel.stat().st_size}"
        assert (await universe.get(address, "HEAD"))[0] == 200


async def test_pages_say_what_the_index_says(start: Any, world: Any, make_wheel: Any) -> None:
    """Withdrawn files, needed Python versions, sizes and metadata are passed on."""
    wheel = make_wheel("needed", "2.0")
    text = "Metadata-Version: 2.1\nName: needed\nVersion: 2.0\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    said = {"requires-python": ">=3.8", "yanked": "broken", "core-metadata": {"sha256": sha256}, "size": 5}
    world.files, world.extra = {"needed": [wheel]}, {wheel.name: said | {"text": text}}
    universe = await start(f"{world.address}/simple")
    (file,) = await universe.page("needed")
    assert {key: file[key] for key in said} == said
    assert (await universe.get(f"{file['url']}.metadata"))[2] == text.encode()


async def test_metadata_of_every_wheel(start: Any, world: Any, make_wheel: Any) -> None:
    """Where an index offers no metadata they are taken out of the wheel; a file that is not a wheel has none."""
    wheel = make_wheel("needed", "2.0", headers=["Requires-Dist: other"])
    broken = wheel.with_name("needed-3.0-py3-none-any.whl")
    broken.write_bytes(b"broken")
    source = wheel.with_name("needed-1.0.tar.gz")
    source.write_bytes(b"source")
    world.files = {"needed": [wheel, broken, source]}
    universe = await start(f"{world.address}/simple")
    files = {file["filename"]: file for file in await universe.page("needed")}
    assert [file.get("core-metadata") for file in files.values()] == [True, True, None]
    found = [await universe.get(f"{file['url']}.metadata") for file in files.values()]
    assert [status for status, _, _ in found] == [200, 502, 404]
    assert b"Requires-Dist: other" in found[0][2]


async def test_failures_have_reasons(start: Any, world: Any, make_wheel: Any) -> None:
    """An index that cannot be asked is 502 with the reason, an unknown project 404; both are logged."""
    universe = await start(f"{world.address}/simple")
    assert (await universe.get("/simple/unknown/"))[0] == 404
    world.status = 403
    status, _, content = await universe.get("/simple/needed/")
    assert (status, b"answered 403" in content) == (502, True)
    assert [line["status"] for line in universe.log()] == [404, 502]
    assert all(line["host"] == "@package-index" for line in universe.log())


async def test_closed_index(start: Any, make_wheel: Any) -> None:
    """Without the host's index every other name is refused with what to change, and logged as refused."""
    universe = await start(wheels=make_wheel("own", "1.0", folder="wheels").parent)
    status, _, content = await universe.get("/simple/needed/")
    assert (status, b"@package-index" in content) == (404, True)
    assert [line["allowed"] for line in universe.log()] == [False]
    assert (await universe.install("uv", "own"))[0] == 0


async def test_only_what_pages_name_can_be_had(start: Any, world: Any, make_wheel: Any) -> None:
    """No address that no page names leads anywhere: not another key, name or path; and nothing can be uploaded."""
    world.files = {"needed": [make_wheel("needed", "2.0")]}
    universe = await start(f"{world.address}/simple")
    address = (await universe.page("needed"))[0]["url"]
    asked = len(world.asked)
    key, name = address.split("/")[3:]
    for path in (
        *(f"/files/needed/{'0' * 64}/{name}", f"/files/needed/{key}/other.whl", f"/files/needed/url-x/{name}"),
        *("/files/needed/x", "/packages/../config.json", "/packages/%2e%2e/config.json"),
        *("/etc/passwd", "/files/needed/..%2f..%2f/x", f"/at/x/y{address}"),
    ):
        assert (await universe.get(path))[0] == 404, path
    for method in ("POST", "PUT", "DELETE"):
        assert (await universe.get("/simple/needed/", method))[0] == 405
    assert len(world.asked) == asked


async def test_killed_download_leaves_nothing_behind(start: Any, world: Any, make_wheel: Any) -> None:
    """A process killed in the middle of a download harms nobody: the next one downloads the file again."""
    wheel = make_wheel("needed", "2.0", os.urandom(3_000_000).hex())
    world.files = {"needed": [wheel]}
    first = await start(f"{world.address}/simple")
    address = (await first.page("needed"))[0]["url"]
    request = asyncio.create_task(first.get(address))
    while f"/files/{wheel.name}" not in world.asked:  # noqa: ASYNC110 - asked by another process
        await asyncio.sleep(0.001)
    first.process.kill()
    await first.process.wait()
    await asyncio.gather(request, return_exceptions=True)
    second = await start(f"{world.address}/simple")
    assert (await second.get(address))[2] == wheel.read_bytes()


@pytest.mark.parametrize("kind", ["index", "links"])
async def test_directories_of_the_host(start: Any, make_wheel: Any, tmp_path: Path, kind: str) -> None:
    """Indexes and links in directories of the host are served like any other."""
    wheel = make_wheel("needed", "2.0")
    if kind == "index":
        page = tmp_path / "index" / "needed" / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>', encoding="utf-8")
        universe = await start((tmp_path / "index").as_uri())
    else:
        universe = await start((tmp_path / "empty").as_uri(), links=str(wheel.parent))
        (tmp_path / "empty").mkdir()
    code, said = await universe.install("uv", "needed")
    assert code == 0, said
    assert (await universe.get("/simple/unknown/"))[0] == 404
