"""No spelling and no swap leads a tool out of its folders, and nothing that lies about makes it wait."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SECRET = "secret of the outside"


@pytest.fixture
def outside(project: Path) -> Path:
    """Return a folder beside the project, with a secret in it."""
    made = project.parent / "outside"
    made.mkdir()
    (made / "secret").write_text(f"{SECRET}\n", encoding="utf-8")
    return made


@pytest.fixture
def traps(project: Path, outside: Path) -> list[str]:
    """Lay links of all kinds, and return paths that seem to be inside."""
    (project / "link").symlink_to(outside / "secret")
    (project / "relative").symlink_to("../outside/secret")
    (project / "folder").symlink_to(outside)
    (project / "chain").symlink_to("folder")
    (project / "up").symlink_to("..")
    (project / "root").symlink_to("/")
    os.link(outside / "secret", project / "hard")
    down = str(outside).lstrip("/")
    return [
        str(outside / "secret"),
        "../outside/secret",
        "./x/../../outside/secret",
        f"{project}/../outside/secret",
        f"//{down}/secret",
        "link",
        "relative",
        "folder/secret",
        "chain/secret",
        "chain/../outside/secret",
        "up/outside/secret",
        f"root/{down}/secret",
        f"/proc/self/root/{down}/secret",
        "/proc/self/cwd/../outside/secret",
        f"/proc/{os.getpid()}/root/{down}/secret",
        "/proc/self/environ",
        "/proc/self/mem",
        "/dev/fd/0",
        "/dev/stdin",
        "/etc/passwd",
        "~/../../../../etc/passwd",
        "..\\outside\\secret",
        "\uff0e\uff0e/outside/secret",
        "\u2025/outside/secret",
        "%2e%2e/outside/secret",
        "hard",
    ]


async def test_nothing_outside_is_read(
    make_desk: Callable[..., Awaitable[Any]], project: Path, traps: list[str]
) -> None:
    """Where reading is confined, every way out is refused, whatever the session would say."""
    (project / "x").mkdir()
    desk = await make_desk(allowed_read_paths=["."])
    for path in traps:
        result = await desk.call("read_file", file_path=path)
        assert not result.success, path
        assert SECRET not in str(result), path
        result = await desk.call("edit_file", file_path=path, old_string="secret of", new_string="x")
        assert not result.success, path
        assert "outside\n" not in str(result), path


async def test_nothing_outside_is_written(desk: Any, project: Path, outside: Path, traps: list[str]) -> None:
    """Every way out is refused for writing, or ends inside; what lies outside stays as it is."""
    (project / "x").mkdir()
    before = _everything(project.parent, but=project)
    for path in traps:
        await desk.call("write_file", file_path=path, content="written")
        await desk.call("edit_file", file_path=path, old_string=SECRET, new_string="written")
    assert _everything(project.parent, but=project) == before
    for _, data in desk.events:
        assert data["path"].startswith(f"{project}/"), data


def _everything(folder: Path, *, but: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and but not in path.parents}


async def test_what_was_allowed_is_what_is_used(desk: Any, project: Path, outside: Path) -> None:
    """A link that is turned elsewhere while the session is asked does not turn the call with it."""
    (project / "good").write_text("good\n", encoding="utf-8")
    link = project / "link"
    link.symlink_to("good")
    decide = desk._decide

    def turning(action: str, details: dict[str, Any]) -> str:
        link.unlink()
        link.symlink_to(outside / "secret")
        answer: str = decide(action, details)
        return answer

    desk.coordinator.register_policy("turning", turning)
    assert (await desk.done("read_file", file_path="link"))["content"] == "     1\tgood"
    link.unlink()
    link.symlink_to("good")
    await desk.done("write_file", file_path="link", content="new\n")
    assert (project / "good").read_text(encoding="utf-8") == "new\n"
    assert (outside / "secret").read_text(encoding="utf-8") == f"{SECRET}\n"


async def test_a_file_that_becomes_a_link_while_asking(desk: Any, project: Path, outside: Path) -> None:
    """What has become a link since it was judged is refused."""
    (project / "a").mkdir()
    (project / "a" / "good").write_text("good\n", encoding="utf-8")
    (project / "link").symlink_to("a/good")

    def turning(action: str, details: dict[str, Any]) -> str:
        (project / "a" / "good").unlink(missing_ok=True)
        (project / "a" / "good").symlink_to(outside / "secret")
        return "allow"

    desk.coordinator.register_policy("turning", turning)
    assert (await desk.refused("read_file", file_path="link"))[0] == "changed_meanwhile"


async def test_swaps_by_another_thread(make_desk: Callable[..., Awaitable[Any]], project: Path, outside: Path) -> None:
    """While a thread swaps file and link as fast as it can, no call shows or changes anything outside."""
    desk = await make_desk(allowed_read_paths=["."])
    file, fresh = project / "file", project / "fresh"
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                fresh.symlink_to(outside / "secret")
                os.replace(fresh, file)
            with suppress(OSError):
                fresh.write_text("inside\n", encoding="utf-8")
                os.replace(fresh, file)

    thread = threading.Thread(target=swap)
    thread.start()
    shown: list[str] = []
    try:
        for _ in range(60):
            for name, more in (
                ("read_file", {}),
                ("edit_file", {"old_string": "i", "new_string": "j", "replace_all": True}),
                ("write_file", {"content": "written\n"}),
            ):
                shown.append(str(await desk.call(name, file_path="file", **more)))
    finally:
        is_over.set()
        thread.join()
    assert not any(SECRET in one for one in shown)
    assert any("\\tinside" in one for one in shown), "no read ever succeeded: the test says nothing"
    assert {path.name: path.read_text(encoding="utf-8") for path in outside.iterdir()} == {"secret": f"{SECRET}\n"}


@pytest.mark.parametrize("kind", ["pipe", "socket", "zero", "tty", "full"])
async def test_nothing_makes_a_tool_wait(desk: Any, project: Path, kind: str) -> None:
    """Pipes, sockets and devices are refused at once, also behind a link."""
    target = {"zero": "/dev/zero", "tty": "/dev/tty", "full": "/dev/full"}.get(kind, str(project / kind))
    server = socket.socket(socket.AF_UNIX)
    try:
        if kind == "pipe":
            os.mkfifo(target)
        elif kind == "socket":
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(project)
                server.bind("socket")
        (project / "link").symlink_to(target)
        async with asyncio.timeout(60):
            for path in (target, "link"):
                assert (await desk.refused("read_file", file_path=path))[0] == "special_file"
                for name, more in (
                    ("write_file", {"content": "x"}),
                    ("edit_file", {"old_string": "a", "new_string": "b"}),
                ):
                    code, _ = await desk.refused(name, file_path=path, **more)
                    assert code in ("special_file", "outside_allowed_paths")
    finally:
        server.close()


async def test_case_is_what_the_file_system_says(make_desk: Callable[..., Awaitable[Any]], project: Path) -> None:
    """A denied file is denied under every spelling under which the system finds it."""
    (project / "Secret").write_text("x\n", encoding="utf-8")
    desk = await make_desk(denied_write_paths=["Secret"])
    for name in ("Secret", "secret", "SECRET"):
        finds_it = (project / name).exists()
        result = await desk.call("edit_file", file_path=name, old_string="x", new_string="y")
        assert (result.error or {}).get("code") == ("denied_path" if finds_it else "not_found")
    assert (project / "Secret").read_text(encoding="utf-8") == "x\n"
