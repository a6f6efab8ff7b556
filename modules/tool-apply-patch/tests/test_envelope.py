"""Several files at once, in the V4A envelope: all of them or none."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_everything_at_once(desk: Any, project: Path) -> None:
    """Files are added, updated, moved and deleted together; the output is as git has it, events follow for each."""
    (project / "changed").write_text("a\nb\n", encoding="utf-8")
    (project / "gone").write_text("x\n", encoding="utf-8")
    (project / "here").write_text("one\ntwo\n", encoding="utf-8")
    (project / "here").chmod(0o755)
    output = await desk.done(
        patch=_patch(
            "*** Add File: d/new",
            "+n",
            "*** Update File: changed",
            "@@",
            "-a",
            "+A",
            " b",
            "*** Update File: here",
            "*** Move to: d/there",
            "@@",
            " one",
            "-two",
            "+2",
            "*** Delete File: gone",
        )
    )
    assert output == "A d/new\nM changed\nD here\nA d/there\nD gone"
    assert desk.tree() == {"d/new": b"n\n", "changed": b"A\nb\n", "d/there": b"one\n2\n"}
    assert os.access(project / "d" / "there", os.X_OK)
    applied = [(Path(data["path"]).name, data["operation"]) for event, data in desk.events if event.startswith("apply")]
    assert applied == [
        ("new", "create_file"),
        ("changed", "update_file"),
        ("here", "update_file"),
        ("there", "update_file"),
        ("gone", "delete_file"),
    ]
    assert sorted(Path(data["path"]).name for event, data in desk.events if event == "artifact:write") == [
        "changed",
        "new",
        "there",
    ]


async def test_names_that_everybody_sees_are_not_asked_again(desk: Any, project: Path) -> None:
    """The paths of a patch stand in the input that was decided on; only links are asked about, and what is moved."""
    (project / "a").write_text("a\n", encoding="utf-8")
    (project / "link").symlink_to("a")
    patch = _patch(
        "*** Update File: link", "*** Move to: b ", "-a", "+A", "*** Add File: c", "+c", "*** Delete File: c"
    )
    await desk.done(patch=patch)
    assert desk.asked == [("filesystem.write", str(project / "a")), ("filesystem.read", str(project / "a"))]


async def test_names_that_may_be_read_otherwise_are_asked(desk: Any, project: Path) -> None:
    """A name that a policy may have read with something at its end is asked about as it is meant."""
    for end in ("\r", "\u00a0", "\u2003"):
        desk.asked.clear()
        await desk.done(patch=_patch(f"*** Add File: a{end}", "+c", f"*** Delete File: a{end}"))
        assert set(desk.asked) == {("filesystem.write", str(project / "a"))}


async def test_one_refusal_refuses_all(desk: Any, project: Path) -> None:
    """When the session says no to one file of a patch, none is changed."""
    (project / "link").symlink_to("secret")
    desk.coordinator.register_policy(
        "no", lambda action, details: "deny" if details["path"].endswith("secret") else None
    )
    code, message = await desk.refused(patch=_patch("*** Add File: a", "+a", "*** Add File: link", "+s"))
    assert (code, "secret" in message) == ("denied", True)
    assert desk.tree() == {}
    assert desk.events == []


@pytest.mark.parametrize(
    "last",
    [
        ["*** Update File: a", "-not there", "+x"],
        ["*** Update File: missing", "-a", "+x"],
        ["*** Delete File: missing"],
        ["*** Add File: a", "+x"],
        ["*** Update File: a", "*** Move to: other"],
        ["*** Add File: ../outside", "+x"],
        ["*** Add File: a/below", "+x"],
        ["*** Update File: binary", "-a", "+x"],
    ],
)
async def test_a_later_failure_changes_nothing(desk: Any, project: Path, last: list[str]) -> None:
    """Whatever is wrong with the last file, the first ones are not changed."""
    for name, data in (("a", b"a\n"), ("other", b"o\n"), ("gone", b"g\n"), ("binary", b"a\0")):
        (project / name).write_bytes(data)
    before = desk.tree()
    await desk.refused(patch=_patch("*** Add File: n/new", "+n", "*** Delete File: gone", *last))
    assert desk.tree() == before
    assert not (project / "n").exists()
    assert desk.events == []


async def test_a_disk_that_fails_in_the_middle(desk: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a later file cannot be put in place, those before it are put back."""
    (project / "a").write_text("a\n", encoding="utf-8")
    (project / "b").write_text("b\n", encoding="utf-8")
    real, calls = os.rename, []

    def rename(*arguments: Any, **named: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        real(*arguments, **named)

    monkeypatch.setattr(os, "rename", rename)
    patch = _patch("*** Add File: n/new", "+n", "*** Update File: a", "-a", "+A", "*** Update File: b", "-b", "+B")
    code, message = await desk.refused(patch=patch)
    assert (code, "Input/output error" in message) == ("io_error", True)
    assert len(calls) == 3
    assert desk.tree() == {"a": b"a\n", "b": b"b\n"}
    assert sorted(os.listdir(project)) == ["a", "b"]
    assert desk.events == []


async def test_one_file_in_several_sections(desk: Any, project: Path) -> None:
    """Later sections see what earlier ones have done."""
    (project / "a").write_text("1\n2\n", encoding="utf-8")
    patch = _patch("*** Update File: a", "-1", "+one", "*** Update File: a", " one", "-2", "+two")
    assert await desk.done(patch=patch) == "M a\nM a"
    assert desk.tree() == {"a": b"one\ntwo\n"}
    code, _ = await desk.refused(patch=_patch("*** Delete File: a", "*** Add File: a", "+x"))
    assert code == "invalid_patch"
    assert desk.tree() == {"a": b"one\ntwo\n"}


async def test_moving_without_a_change(desk: Any, project: Path) -> None:
    """A file can be moved as it is, line ends and all."""
    (project / "a").write_bytes(b"x\r\ny")
    assert await desk.done(patch=_patch("*** Update File: a", "*** Move to: b/c")) == "D a\nA b/c"
    assert desk.tree() == {"b/c": b"x\r\ny"}


async def test_moving_a_binary_file(desk: Any, project: Path) -> None:
    """A binary file can be moved, byte by byte; with lines to change, it is refused as ever."""
    (project / "a.png").write_bytes(b"\x89PNG\0\xff")
    await desk.done(patch=_patch("*** Update File: a.png", "*** Move to: img/b.png"))
    assert desk.tree() == {"img/b.png": b"\x89PNG\0\xff"}
    patch = _patch("*** Update File: img/b.png", "*** Move to: c.png", "-a", "+b")
    assert (await desk.refused(patch=patch))[0] == "binary_file"


async def test_moving_twice_keeps_the_mode(desk: Any, project: Path) -> None:
    """A file that a patch moves on and on has the mode that it came with."""
    (project / "a").write_text("x\n", encoding="utf-8")
    (project / "a").chmod(0o750)
    first, second = ("*** Update File: a", "*** Move to: b"), ("*** Update File: b", "*** Move to: c")
    await desk.done(patch=_patch(*first, *second))
    assert stat.S_IMODE((project / "c").stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        ("", "begin with"),
        ("*** Begin Patch\n*** Add File: a\n+a", "end with"),
        (_patch(), "names no file"),
        (_patch("*** Rename File: a"), "line 2"),
        (_patch("*** Add File: ", "+a"), "line 2"),
        (_patch("*** Add File: a", "+a", "b"), "line 4"),
        (_patch("*** Update File: a"), "no lines"),
        (_patch("*** Update File: a", "@@ def f():"), "line 3"),
        (_patch("*** Update File: a", "?a"), "line 3"),
        (_patch("*** Update File: a", "*** Move to: ", "-a"), "no name"),
        (_patch("*** Delete File: a", "-a"), "line 3"),
    ],
)
async def test_invalid_patches_are_reported(desk: Any, patch: str, word: str) -> None:
    """A patch that cannot be read is refused with the line that is wrong."""
    code, message = await desk.refused(patch=patch)
    assert code == "invalid_patch"
    assert word in message


async def test_wrappings_of_models(desk: Any) -> None:
    """Blank lines and code fences around a patch, and CRLF inside it, do no harm."""
    await desk.done(patch=f"\n```\n{_patch('*** Add File: a', '+x')}\n```\n".replace("\n", "\r\n"))
    assert desk.tree() == {"a": b"x\n"}


async def test_cancelled_before_the_change(desk: Any, project: Path) -> None:
    """A call that is cancelled before the first file has changed changes none."""

    class Checkpoints:
        reached, may_go_on = threading.Event(), threading.Event()

        def before_write(self, path: Path, *, tool: str, tool_call_id: str | None, follow: bool) -> None:
            if path.name == "b":
                self.reached.set()
                self.may_go_on.wait(60)

        def after_write(self, path: Path) -> None:
            """Note nothing."""

    checkpoints = Checkpoints()
    desk.coordinator.register_capability("session.checkpoint", checkpoints)
    task = asyncio.create_task(desk.call(patch=_patch("*** Add File: a", "+a", "*** Add File: b", "+b")))
    await asyncio.to_thread(checkpoints.reached.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    checkpoints.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert os.listdir(project) == []
    assert desk.events == []


async def test_all_files_are_kept_first(desk: Any, project: Path) -> None:
    """Every file of a patch has its checkpoint before the first one changes."""
    (project / "a").write_text("a\n", encoding="utf-8")
    seen: list[tuple[str, str, list[str]]] = []

    class Checkpoints:
        def before_write(self, path: Path, *, tool: str, tool_call_id: str | None, follow: bool) -> None:
            seen.append(("before", path.name, sorted(os.listdir(project))))

        def after_write(self, path: Path) -> None:
            seen.append(("after", path.name, sorted(os.listdir(project))))

    desk.coordinator.register_capability("session.checkpoint", Checkpoints())
    await desk.done(patch=_patch("*** Update File: a", "*** Move to: b"))
    assert seen == [
        ("before", "b", ["a"]),
        ("before", "a", ["a"]),
        ("after", "b", ["b"]),
        ("after", "a", ["b"]),
    ]


async def test_where_may_be_written(make_desk: Callable[..., Awaitable[Any]], project: Path) -> None:
    """Allowed and denied paths of the config hold for every file of a patch."""
    desk = await make_desk(engine="function", allowed_write_paths=["src"], denied_write_paths=["src/gen"])
    await desk.done(patch=_patch("*** Add File: src/a", "+a"))
    assert (await desk.refused(patch=_patch("*** Add File: b", "+b")))[0] == "outside_allowed_paths"
    assert (await desk.refused(patch=_patch("*** Add File: src/gen/b", "+b")))[0] == "denied_path"
    move = _patch("*** Update File: src/a", "*** Move to: src/gen/a")
    assert (await desk.refused(patch=move))[0] == "denied_path"
    assert desk.tree() == {"src/a": b"a\n"}
