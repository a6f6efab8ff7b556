"""Ways into a universe: ports of the host's loopback, signs of readiness, files pushed and pulled."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import PushedFile

SERVED = """
network: {mode: none}
mocks: [{name: web, run: python3 ~/echo.py 8410 web, port: 8410}]
provision: {files: [{src: echo.py, dest: ~/echo.py}]}
access: {hostname: twin.example, ports: [{container: 8410, label: web, path: /start}, {container: 9999}]}
"""


async def ask(port: int, host: str = "127.0.0.1") -> bytes:
    """Return what a plain request is answered with."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /from-the-host HTTP/1.0\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


async def test_port_of_the_universe_is_reached_on_loopback_only(here: Any, say: Any) -> None:
    """A free port of 127.0.0.1 leads inside; no other address of the host does, and it is closed with the universe."""
    async with here.launched(SERVED) as universe:
        web, nothing = (await universe.status())["ports"]
        assert (web["label"], web["container"], web["url"]) == ("web", 8410, f"http://127.0.0.1:{web['host']}/start")
        answer = await ask(web["host"])
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["path"] == "/from-the-host"
        assert await ask(nothing["host"]) == b""
        for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)} | {"127.0.0.2", "::1"}:
            if address != "127.0.0.1":
                with pytest.raises(OSError):
                    await ask(web["host"], str(address))
        assert await say(universe, "hostname") == "twin.example\n"
        await universe.reset(None)
        assert (await ask(web["host"])).startswith(b"HTTP/1.1 200"), "after a reset the same port leads inside"
    with pytest.raises(OSError):
        await ask(web["host"])


async def test_port_that_is_taken_fails_the_launch(here: Any) -> None:
    """The port that the profile asks for is named, and what to write instead."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with here.made(f"access: {{ports: [{{container: 80, host: {port}}}]}}") as universe:
            with pytest.raises(TwinError, match=str(port)) as caught:
                await universe.launch()
    assert caught.value.code == "port_taken"


async def test_readiness_by_request_port_and_command(here: Any) -> None:
    """Each kind of sign is looked at until it is there."""
    text = (
        SERVED
        + """
readiness:
  - {name: answers, http: {url: "http://127.0.0.1:8410/x", expect_json: {mark: web}}, interval: 0.1, timeout: 20}
  - {name: listens, tcp: 8410, interval: 0.1, timeout: 20}
  - {name: file, command: "test -e ~/second || { touch ~/second; exit 1; }", interval: 0.1, timeout: 20}
"""
    )
    async with here.launched(text) as universe:
        looked = await universe.check_readiness()
        assert looked["ready"]
        assert [sign["name"] for sign in looked["readiness"]] == ["answers", "listens", "file"]


@pytest.mark.parametrize(
    ("sign", "why"),
    [
        ("tcp: 9999", "port 9999"),
        ("command: 'echo not yet >&2; exit 4'", "exit code is 4: not yet"),
        ("http: 'http://127.0.0.1:9999/'", "9999"),
    ],
)
async def test_sign_that_never_comes_fails_the_launch(here: Any, sign: str, why: str) -> None:
    """The launch says which sign is missing and why; a look at one that runs says the same."""
    text = f"readiness: [{{name: never, {sign}, retries: 2, interval: 0.05, timeout: 20}}]"
    async with here.made(text) as universe:
        with pytest.raises(TwinError, match=why) as caught:
            await universe.launch()
        assert caught.value.code == "not_ready"
        looked = await universe.check_readiness()
        assert not looked["ready"]
        assert looked["readiness"][0]["attempts"] == 1
        assert json.loads((here.evidence / "error.json").read_bytes())["code"] == "not_ready"


async def test_push_and_pull_carry_files_and_no_links(here: Any, say: Any, tmp_path: Path) -> None:
    """What is pushed belongs to the user; links that come out are left out and named, never followed."""
    folder = tmp_path / "some folder ü"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_bytes(b"content\0")
    (folder / "inner" / "file").chmod(0o640)
    (folder / "link").symlink_to("inner/file")
    async with here.launched() as universe:
        pushed = await universe.push(PushedFile(folder, "~/new/place", recursive=True))
        assert pushed == {"pushed": "/home/user/new/place"}
        assert await say(universe, "stat -c '%U %a %s' ~/new/place/inner/file; readlink ~/new/place/link") == (
            "user 640 8\ninner/file\n"
        )
        await say(universe, "ln -s /etc/passwd ~/new/place/outside; ln -s ../../.. ~/new/place/up")
        pulled = await universe.pull("~/new/place", tmp_path / "out")
        names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*"))
        assert [Path(path).name for path in pulled["pulled"]] == ["file"]
        assert {entry["name"].rpartition("/")[2] for entry in pulled["left_out"]} == {"link", "outside", "up"}
        assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
        assert names[-1].endswith("inner/file")
        for missing in ("~/missing", "~/missing*"):
            with pytest.raises(TwinError) as caught:
                await universe.pull(missing, tmp_path / "out")
            assert caught.value.code == "file_missing"
        with pytest.raises(TwinError, match="only symbolic links"):
            await universe.pull("~/new/place/outside", tmp_path / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="only with root inside can files be given to others")
async def test_pushed_file_gets_the_owner_it_is_given(here: Any, say: Any, tmp_path: Path) -> None:
    """`uid` and `gid` count whoever they are, and folders that cannot be written to are told."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    async with here.launched() as universe:
        await universe.push(PushedFile(tmp_path / "file", "/opt/of-others", mode=0o600, uid=1234, gid=77))
        await universe.push(PushedFile(tmp_path / "file", "/etc/of-root", uid=0))
        assert await say(universe, "stat -c '%u %g %a' /opt/of-others /etc/of-root") == "1234 77 600\n0 0 644\n"
        with pytest.raises(TwinError) as caught:
            await universe.push(PushedFile(tmp_path / "file", "/srv/deep/file"))
        assert caught.value.code == "push_failed"
        with pytest.raises(TwinError):
            await universe.push(PushedFile(tmp_path / "missing", "~/x"))
        with pytest.raises(TwinError, match="is a folder"):
            await universe.push(PushedFile(tmp_path, "~/x"))


async def test_pull_has_a_bound(here: Any, say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A universe cannot fill the host's disk."""
    monkeypatch.setattr("amplifier_digital_twin.provisioning._MAX_PULL", 1_000_000)
    async with here.launched() as universe:
        await say(universe, "truncate -s 1100000 ~/large; truncate -s 3G ~/larger; truncate -s 900000 ~/fits")
        for name in ("large", "larger"):
            with pytest.raises(TwinError):
                await universe.pull(f"~/{name}", tmp_path / "out")
        await universe.pull("~/fits", tmp_path / "out")
    total = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert total <= 1_000_000
