"""What every backend's twins keep: files, accounts, snapshots, layers; and what they leave behind: nothing."""

from __future__ import annotations

import asyncio
import io
import tarfile
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.engine import container_name
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

USER = User()
ROOT = User("root", 0)
Shell = Callable[..., Awaitable[Any]]


def packed(files: dict[str, bytes]) -> io.BytesIO:
    """Return a tar stream."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid = len(content), 0o640, 4321
            archive.addfile(entry, io.BytesIO(content))
    out.seek(0)
    return out


async def test_files_tools_and_account_are_there(place: Any, text: Shell, tmp_path: Path) -> None:
    """A start has the files with their permissions, the host's programs, and the user with a home of his own."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    files = {"/etc/hosts": (b"127.0.0.1 here\n", 0o644), "/etc/ssl/certs/own.pem": (b"PEM", 0o644)}
    twin = await place.create(files=files, tools={"say": tool})
    assert await text(twin, "cat /etc/hosts /etc/ssl/certs/own.pem; /opt/twin/bin/say; uname -n") == (
        "127.0.0.1 here\nPEM" + "tool\ntesthost"
    )
    assert (await text(twin, "ls -lnd /home/user")).split()[2:4] == ["1000", "1000"]
    assert await text(twin, "touch /home/user/own; ls /home/user") == "own"


async def test_files_go_in_and_come_out(place: Any, text: Shell) -> None:
    """What is put in belongs to the user; what matches comes out; too much is refused; links are not followed."""
    twin = await place.create()
    await twin.put(packed({"a/one.txt": b"1", "a/b/two.txt": b"22"}), USER, "/home/user/in")
    assert (await text(twin, "ls -ln /home/user/in/a/one.txt")).split()[:4] == ["-rw-r-----", "1", "1000", "1000"]
    await text(twin, "cd /home/user/in; ln -s /etc/passwd link.txt")
    out = io.BytesIO()
    await twin.get(["~/in/**/*.txt"], USER, out, 1000)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive if member.isreg()}  # type: ignore[union-attr]
    assert found == {"home/user/in/a/one.txt": b"1", "home/user/in/a/b/two.txt": b"22"}
    with pytest.raises(TwinError) as caught:
        await twin.get(["/home/user/in"], USER, io.BytesIO(), 2)
    assert caught.value.code == "too_large"
    with pytest.raises(TwinError) as caught:
        await twin.put(packed({"x": b"1"}), USER, "/etc/not-for-users")
    assert caught.value.code == "transfer_failed"


async def test_root_gives_files_owners(place: Any, text: Shell) -> None:
    """Owners in an archive count when root unpacks it."""
    twin = await place.create()
    await twin.put(packed({"owned": b""}), ROOT, "/srv")
    assert (await text(twin, "ls -ln /srv/owned")).split()[2] == "4321"


async def test_reset_goes_back_to_a_snapshot_and_to_the_start(place: Any, text: Shell, shell: Shell) -> None:
    """A snapshot has the files with their owners; going back ends what runs; an unknown name is an error."""
    twin = await place.create(files={"/etc/note": (b"start", 0o644)})
    await text(twin, "echo kept > /home/user/kept")
    await text(twin, "echo changed > /etc/note; echo r > /srv/roots 2>/dev/null || echo r > /opt/roots", ROOT)
    await twin.snapshot("one")
    await text(twin, "echo lost > /home/user/kept; echo lost > /home/user/lost")
    await twin.reset("one")
    assert await text(twin, "cat /home/user/kept; ls /home/user") == "kept\nkept"
    assert (await text(twin, "ls -ln /home/user/kept")).split()[2:4] == ["1000", "1000"]
    assert await text(twin, "cat /etc/note") == "start"
    await text(twin, "echo more >> /home/user/kept; echo w > /etc/written", ROOT)
    await twin.reset()
    assert await text(twin, "ls /home/user") == ""
    with pytest.raises(TwinError):
        await twin.reset("never-made")
    assert twin.is_running


async def test_a_layer_outlives_its_universe(place: Any, text: Shell) -> None:
    """What one universe keeps in the cache another one starts from, and it can be asked for."""
    layer = f"test-{uuid.uuid4().hex[:8]}"
    place.layers.append(layer)
    assert not await place.backend.has_layer(place.cache, layer)
    first = await place.create()
    await text(first, "echo provisioned > /home/user/state")
    await first.snapshot(layer, cache=True)
    await first.destroy()
    assert await place.backend.has_layer(place.cache, layer)
    second = await place.create(layer=layer)
    assert await text(second, "cat /home/user/state; id -u") == "provisioned\n1000"
    await second.reset()
    assert await text(second, "cat /home/user/state") == "provisioned"


async def test_two_at_once_never_meet(place: Any, text: Shell) -> None:
    """Twins made at the same time see no file or port of each other, and the end of one is not the other's."""
    one, two = await asyncio.gather(place.create(), place.create())
    await text(one, "echo mine > /home/user/mine")
    assert await text(two, "ls /home/user") == ""
    ways = [await twin.sockets() for twin in (one, two)]
    listening = [await way.listen("127.0.0.1", 3128) for way in ways]
    for sock, way in zip(listening, ways, strict=True):
        sock.close()
        await way.close()
    await one.destroy()
    assert not one.is_running
    assert await text(two, "echo still") == "still"


async def test_destroy_leaves_nothing(place: Any) -> None:
    """After destroy nothing runs, a second time does nothing, and nothing can be run."""
    from amplifier_digital_twin.backends.twin import Run

    twin = await place.create()
    await twin.snapshot("kept")
    await twin.destroy()
    await twin.destroy()
    assert not twin.is_running
    with pytest.raises(TwinError) as caught:
        await twin.run(Run(["/bin/true"], {}, USER))
    assert caught.value.code in ("twin_gone", "not_running")


async def test_a_failed_start_leaves_no_container(engine_place: Any, tmp_path: Path) -> None:
    """When a twin cannot be made ready, its container is gone again."""
    spec = engine_place.spec(tools={"none": tmp_path / "missing"})
    with pytest.raises(TwinError) as caught:
        await engine_place.backend.create(spec, lambda line: None)
    assert caught.value.code == "tool_missing"
    assert await engine_place.backend.engine.pid(container_name(spec.id)) is None


async def test_remove_takes_what_a_dead_universe_left(engine_place: Any) -> None:
    """The container and the snapshots of a universe whose keeper died go; gone ones are no error."""
    spec = engine_place.spec()
    twin = await engine_place.create(spec)
    await twin.snapshot("left")
    engine, backend = engine_place.backend.engine, engine_place.backend
    assert await engine.has_image(engine.snapshot_image(spec.id, "left"))
    other = await engine_place.create()
    await backend.remove(spec.folder, spec.id)
    await backend.remove(spec.folder, spec.id)
    assert not twin.is_running
    assert not await engine.has_image(engine.snapshot_image(spec.id, "left"))
    assert other.is_running


async def test_nobody_elses_container_is_removed(engine_place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container of the right name that another user labelled stays."""
    import amplifier_digital_twin.backends.containers as containers
    import amplifier_digital_twin.backends.incus as incus

    spec = engine_place.spec()
    twin = await engine_place.create(spec)
    for module in (containers, incus):
        monkeypatch.setattr(module, "owner", lambda: "4242")
    with pytest.raises(TwinError) as caught:
        await engine_place.backend.remove(spec.folder, spec.id)
    assert caught.value.code == "not_ours"
    assert twin.is_running
    monkeypatch.undo()


async def test_an_archive_is_a_base(engine_place: Any, text: Shell, small: Any, forget: Callable[..., Any]) -> None:
    """A root file system in an archive makes a twin; one whose hash is another is refused."""
    from dataclasses import replace

    try:
        twin = await engine_place.create(base=small)
        assert "user:x:1000:1000" in await text(twin, "cat /etc/passwd")
        assert await text(twin, "ls /usr/share 2>/dev/null | wc -l") == "0"
        await twin.destroy()
    finally:
        await forget(engine_place.backend, small)
    wrong = replace(small, tar=replace(small.tar, sha256="0" * 64))
    with pytest.raises(TwinError) as caught:
        await engine_place.create(base=wrong)
    assert caught.value.code == "image_unavailable"
