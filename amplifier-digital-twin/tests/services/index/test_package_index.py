"""Installers get local wheels for the names that a profile overrides, and everything else as the host would."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services import package_index
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.host_index import Location
from amplifier_digital_twin.services.package_index import PackageIndex

MakeWheel = Callable[..., Path]
Serve = Callable[..., Awaitable[Any]]
JSON = "application/vnd.pypi.simple.v1+json"
CLIENTS = pytest.mark.parametrize("client", ["uv", "pip"])


@CLIENTS
async def test_override_wins_over_a_newer_release(serve: Serve, world: Any, make_wheel: MakeWheel, client: str) -> None:
    """A local wheel of a lower version is installed although a newer one is published; its dependencies come along."""
    world.files["amplifier-core"] = [make_wheel("amplifier-core", "9.0", folder="world")]
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    local = make_wheel("amplifier-core", "3.0.0", headers=["Requires-Dist: helper"])
    served = await serve({"Amplifier_Core": [local]}, f"{world.address}/simple")
    code, said = await served.install(client, "amplifier.core")
    assert code == 0, said
    assert served.text("amplifier_core") == "WHAT = '3.0.0'\n"
    assert served.text("helper") == "WHAT = '1.0'\n"
    assert not any("amplifier" in path for path in world.asked)
    names = [(file.name, file.filename) for file in served.index.served]
    assert names == [("amplifier-core", local.name), ("helper", "helper-1.0-py3-none-any.whl")]
    code, said = await served.install(client, "amplifier-core==9.0")
    assert code != 0


@CLIENTS
async def test_second_time_without_upstream(serve: Serve, world: Any, make_wheel: MakeWheel, client: str) -> None:
    """What was once fetched is installed again when the world cannot be reached, by another universe too."""
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    first = await serve({}, f"{world.address}/simple")
    assert (await first.install(client, "helper"))[0] == 0
    world.status = 500
    asked = len(world.asked)
    second = await serve({}, f"{world.address}/simple")
    code, said = await second.install(client, "helper")
    assert code == 0, said
    assert second.text("helper") == "WHAT = '1.0'\n"
    assert len(world.asked) == asked


async def test_stale_page_is_used_when_upstream_is_down(
    serve: Serve, world: Any, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is no longer fresh is asked for again; when that fails it is used, and the log says so."""
    monkeypatch.setattr(package_index, "PAGE_LIFETIME", -1.0)
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    served = await serve({}, f"{world.address}/simple")
    assert (await served.get("/simple/helper/"))[0] == 200
    world.files["helper"].append(make_wheel("helper", "2.0", folder="world"))
    assert b"helper-2.0" in (await served.get("/simple/helper/"))[2]
    world.status = 503
    assert b"helper-2.0" in (await served.get("/simple/helper/"))[2]
    errors = [line["reason"] for line in served.decisions() if line["verdict"] == "error"]
    assert "503" in errors[-1]
    assert "is used" in errors[-1]


@CLIENTS
async def test_file_that_is_not_what_was_promised(serve: Serve, world: Any, make_wheel: MakeWheel, client: str) -> None:
    """A file whose hash is not the promised one never enters the universe."""
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    world.is_lying = True
    served = await serve({}, f"{world.address}/simple")
    code, said = await served.install(client, "helper")
    assert code != 0
    errors = [line["reason"] for line in served.decisions() if line["verdict"] == "error"]
    assert "the index promised" in errors[-1]
    world.is_lying = False
    code, said = await served.install(client, "helper")
    assert code == 0, said


async def test_upstream_down_is_a_bad_gateway(serve: Serve, world: Any) -> None:
    """When an index cannot be asked the answer is 502 with the reason; an unknown project is 404."""
    served = await serve({}, f"{world.address}/simple", "http://127.0.0.1:9/simple")
    status, _, body = await served.get("/simple/helper/")
    assert status == 502
    assert b"127.0.0.1:9/simple/helper/: cannot be reached" in body
    assert served.decisions()[-1]["verdict"] == "error"
    other = await serve({}, f"{world.address}/simple")
    assert (await other.get("/simple/helper/"))[0] == 404


async def test_no_upstream_refuses(serve: Serve, make_wheel: MakeWheel) -> None:
    """Without an index of the host every other name is refused, with what to change, and logged."""
    served = await serve({"own": [make_wheel("own", "1.0")]}, is_open=False)
    assert (await served.install("uv", "own"))[0] == 0
    status, _, body = await served.get("/simple/helper/")
    assert status == 404
    assert b"@package-index" in body
    assert served.decisions()[-1]["verdict"] == "refuse"
    assert served.decisions()[-1]["path"] == "/simple/helper/"
    assert (await served.get("/files/helper/" + "0" * 64 + "/helper-1.0-py3-none-any.whl"))[0] == 404


async def test_facts_of_a_file_are_kept(serve: Serve, world: Any, make_wheel: MakeWheel) -> None:
    """Withdrawn files, needed Python versions, metadata, size and time of upload are passed on, in JSON and HTML."""
    good, bad, gone = (make_wheel("helper", version, folder="world") for version in ("1.0", "2.0", "3.0"))
    world.files["helper"] = [good, bad, gone]
    world.extra = {
        good.name: {"upload-time": "2024-01-01T00:00:00Z", "size": good.stat().st_size, "yanked": False},
        bad.name: {"requires-python": ">=99"},
        gone.name: {"yanked": 'broken "badly" & <gone>'},
    }
    served = await serve({}, f"{world.address}/simple")
    _, headers, body = await served.get("/simple/helper/", JSON)
    assert headers["content-type"] == JSON
    files = {item["filename"]: item for item in json.loads(body)["files"]}
    assert files[bad.name]["requires-python"] == ">=99"
    assert files[gone.name]["yanked"] == 'broken "badly" & <gone>'
    assert "yanked" not in files[good.name]
    assert files[good.name]["upload-time"] == "2024-01-01T00:00:00Z"
    _, headers, body = await served.get("/simple/helper/")
    assert headers["content-type"].startswith("text/html")
    assert b'data-requires-python="&gt;=99"' in body
    assert b"data-yanked=" in body
    for client in ("uv", "pip"):
        code, said = await served.install(client, "helper")
        assert code == 0, said
        assert served.text("helper") == "WHAT = '1.0'\n"


async def test_metadata_beside_wheels(serve: Serve, world: Any, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """Metadata of local wheels, and of those in folders of the host, can be had without the wheel."""
    local = make_wheel("own", "1.0", headers=["Summary: local"])
    linked = make_wheel("linked", "1.0", headers=["Summary: linked"], folder="links")
    served = await serve({"own": [local]}, Location.parse("links", str(linked.parent)))
    for name, summary in (("own", b"Summary: local"), ("linked", b"Summary: linked")):
        item = json.loads((await served.get(f"/simple/{name}/", JSON))[2])["files"][0]
        assert item["core-metadata"] is True
        assert "dist-info-metadata" not in item  # which pip before 23.2 cannot read in this form
        status, _, body = await served.get(item["url"] + ".metadata")
        assert status == 200
        assert summary in body


async def test_metadata_are_taken_out_of_wheels(serve: Serve, world: Any, make_wheel: MakeWheel) -> None:
    """An index that offers no metadata does here: those that are in the wheel, and of no wheel but a sound one."""
    sound = make_wheel("helper", "1.0", folder="world", headers=["Summary: inside"])
    broken = sound.with_name("helper-2.0-py3-none-any.whl")
    broken.write_bytes(b"this is no archive")
    source = sound.with_name("helper-3.0.tar.gz")
    source.write_bytes(b"neither is this")
    world.files["helper"] = [sound, broken, source]
    served = await serve({}, f"{world.address}/simple")
    page = json.loads((await served.get("/simple/helper/", JSON))[2])
    items = {item["filename"]: item for item in page["files"]}
    assert items[sound.name]["core-metadata"] is True
    assert "core-metadata" not in items[source.name]
    assert b'data-core-metadata="true"' in (await served.get("/simple/helper/"))[2]
    status, _, body = await served.get(items[sound.name]["url"] + ".metadata")
    assert (status, b"Summary: inside" in body) == (200, True)
    status, _, body = await served.get(items[broken.name]["url"] + ".metadata")
    assert (status, b"no usable wheel" in body) == (502, True)


async def test_rebuilt_wheel_of_the_same_version(serve: Serve, make_wheel: MakeWheel) -> None:
    """A wheel that was built again without a new version is what installers get: its address says so."""
    served = await serve({"own": [make_wheel("own", "1.0", "first")]}, is_open=False)
    before = served.index.fingerprint()
    uv = (str(Path(sys.executable).parent / "uv"), "pip", "install", "-p", sys.executable)
    pip = (sys.executable, "-m", "pip", "install")
    said = []
    for text in ("first", "second"):
        host, port = served.base.removeprefix("http://").split(":")
        address = served.index.url((host, int(port)))
        served.environment |= {"UV_DEFAULT_INDEX": address, "PIP_INDEX_URL": address}
        for number, client in enumerate((uv, pip)):
            target = served.home / f"{text}{number}"
            code, words = await served.run(*client, "--target", str(target), "own")
            assert code == 0, words
            said.append((target / "own" / "__init__.py").read_text(encoding="utf-8"))
        served.index.replace({"own": [make_wheel("own", "1.0", "second", folder="rebuilt")]})
    assert served.index.fingerprint() != before
    assert said == ["WHAT = 'first'\n"] * 2 + ["WHAT = 'second'\n"] * 2


async def test_file_is_found_without_its_page(serve: Serve, world: Any, make_wheel: MakeWheel) -> None:
    """An address that an earlier universe handed out leads to the file, though this one never made the page."""
    world.files["helper"] = [make_wheel("helper", "1.0", folder="world")]
    first = await serve({}, f"{world.address}/simple")
    item = json.loads((await first.get("/simple/helper/", JSON))[2])["files"][0]
    second = await serve({}, f"{world.address}/simple")
    status, _, body = await second.get(item["url"])
    assert status == 200
    assert body == world.files["helper"][0].read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/simple/../../etc/passwd",
            "/simple/%2e%2e/",
            "/simple/a b/",
            "/simple/-x/",
            "/etc/passwd",
            "/files/own",
        ),
        *("/files/own/0/../../x", "/files/own/%2e%2e%2f%2e%2e/x", "/files/own/" + "0" * 64 + "/own-1.0.whl"),
    ],
)
async def test_odd_paths_are_not_found(serve: Serve, make_wheel: MakeWheel, path: str) -> None:
    """Nothing but projects and their files can be asked for."""
    served = await serve({"own": [make_wheel("own", "1.0")]}, is_open=False)
    assert (await served.get(path))[0] == 404


async def test_only_reading(serve: Serve, make_wheel: MakeWheel) -> None:
    """The index takes no uploads, lists its own names, and answers HEAD without a body."""
    import httpx2

    served = await serve({"own": [make_wheel("own", "1.0")]}, is_open=False)
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.post(f"{served.base}/simple/own/", content=b"x")).status_code == 405
        head = await client.head(f"{served.base}/simple/own/")
        assert (head.status_code, head.content) == (200, b"")
    assert b"own" in (await served.get("/simple/"))[2]
    assert json.loads((await served.get("/simple/", JSON))[2])["projects"] == [{"name": "own"}]


def test_wheel_of_another_name_is_refused(make_wheel: MakeWheel, tmp_path: Path) -> None:
    """A wheel under the wrong name, or one that contradicts itself, is an error when the wheels are looked into."""
    log = Decisions(tmp_path / "log")

    def refusal(path: Path) -> str:
        index = PackageIndex({"own": [path]}, None, tmp_path / "cache", log)
        with pytest.raises(TwinError) as caught:
            index.look_into()
        return caught.value.code

    broken = tmp_path / "own-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    assert refusal(make_wheel("other", "1.0")) == "wheel_mismatch"
    assert refusal(make_wheel("own", "1.0", called="other")) == "wheel_invalid"
    assert refusal(broken) == "wheel_invalid"


async def test_wheel_that_nobody_looked_into_is_refused_when_it_is_asked_for(serve: Serve, tmp_path: Path) -> None:
    """A page or metadata of a file that is no wheel is an error with what to do, and nothing of it is offered."""
    broken = tmp_path / "own-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    served = await serve({"own": [broken]}, is_open=False)
    status, _, body = await served.get("/simple/own/")
    assert status == 502
    assert b"is no usable wheel" in body
    assert b"build it again" in body


def test_file_that_is_not_called_as_one_of_its_name_is_refused(tmp_path: Path) -> None:
    """That is seen before anything is looked into."""
    (tmp_path / "other-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(TwinError) as caught:
        PackageIndex({"own": [tmp_path / "other-1.0.tar.gz"]}, None, tmp_path / "cache", Decisions(tmp_path / "log"))
    assert caught.value.code == "wheel_mismatch"


def test_fingerprint_depends_on_content(make_wheel: MakeWheel, tmp_path: Path) -> None:
    """The fingerprint is the same for the same wheels wherever they lie, another for other ones."""
    log = Decisions(tmp_path / "log")

    def of(path: Path) -> str:
        return PackageIndex({"own": [path]}, None, tmp_path / "cache", log).fingerprint()

    first = make_wheel("own", "1.0")
    moved = tmp_path / "moved" / first.name
    moved.parent.mkdir()
    moved.write_bytes(first.read_bytes())
    assert of(first) == of(moved) != of(make_wheel("own", "1.0", "other", folder="other"))
