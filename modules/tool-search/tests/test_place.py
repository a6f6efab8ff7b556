"""Where a search happens is where it was allowed to, whatever links say and whoever swaps them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_search import place as place_module
from amplifier_module_tool_search.calls import SearchError
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.place import Places, open_place

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]


class Asked(list[tuple[str, dict[str, Any]]]):
    """What a policy was asked; it denies what is outside of the project."""

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = str(project)

    def __call__(self, action: str, details: dict[str, Any]) -> Any:
        self.append((action, details))
        return "allow" if details["path"].startswith(self.project) else ("deny", "outside of the project")


@pytest.fixture
def asked(coordinator: MockCoordinator, project: Path) -> Asked:
    """Register a policy that keeps what it is asked."""
    policy = Asked(project)
    coordinator.register_policy("asked", policy)
    return policy


@pytest.fixture
def outside(project: Path) -> Path:
    """Return a folder outside of the project with a file that matches `foo`."""
    path = project.parent / "outside"
    path.mkdir()
    (path / "secret").write_text("foo\n", encoding="utf-8")
    return path


async def test_a_link_out_is_asked_for_again(grep: Call, asked: Asked, project: Path, outside: Path) -> None:
    """A path that is a link is asked for again, by where it leads to, with the call; denied, nothing is searched."""
    (project / "link").symlink_to(outside)
    result = await grep("foo", path="link")
    assert result.error == {
        "message": f"searching {outside} was not allowed: outside of the project",
        "code": "denied",
    }
    [(action, details)] = asked
    assert action == "filesystem.read"
    assert details["path"] == str(outside)
    assert details["tool_name"] == "grep"
    assert details["tool_input"]["path"] == "link"


@pytest.mark.parametrize("path", ["link/secret", "inner/../link", "link/../outside", "file"])
async def test_every_kind_of_link_is_seen(grep: Call, asked: Asked, project: Path, outside: Path, path: str) -> None:
    """Links in the middle, behind .. and to files are resolved as the system does it."""
    (project / "link").symlink_to(outside)
    (project / "file").symlink_to(outside / "secret")
    (project / "inner").mkdir()
    result = await grep("foo", path=path)
    assert result.error is not None
    assert result.error["code"] == "denied"
    assert len(asked) == 1


async def test_there_is_one_question_per_call(
    grep: Call, glob: Call, asked: Asked, write: Write, outside: Path
) -> None:
    """What the input shows already, inside or outside, has been decided about with the call."""
    write({"src/a": "foo\n"})
    assert (await grep("foo", path="src")).output["files"] == ["src/a"]
    assert (await grep("foo")).success
    assert (await grep("foo", path=str(outside))).success
    assert (await glob("*", path="src")).success
    assert asked == []


async def test_a_pattern_that_leaves_is_asked_for(glob: Call, asked: Asked, project: Path, outside: Path) -> None:
    """A folder that only the pattern names is asked for, since the path does not show it."""
    for pattern in (f"{outside}/*", "../outside/*"):
        result = await glob(pattern)
        assert result.error is not None
        assert result.error["code"] == "denied"
    assert [details["path"] for _, details in asked] == [str(outside)] * 2


async def test_allowed_paths(grep: Call, write: Write, project: Path, outside: Path) -> None:
    """With allowed_paths nothing else is searched, by any way; they may be relative, and links themselves."""
    write({"src/a": "foo\n", "src2/b": "foo\n"})
    (project / "src" / "out").symlink_to(outside)
    (project / "alias").symlink_to(project / "src2")
    config = {"allowed_paths": ["src", "alias"]}
    assert (await grep("foo", config, path="src")).output["files"] == ["src/a"]
    assert (await grep("foo", config, path="src2")).output["files"] == ["src2/b"]
    for path in ("", "src/out", "src/../lib", str(outside), "src/.."):
        refused = await grep("foo", config, path=path)
        assert refused.error is not None
        assert refused.error["code"] in ("not_allowed", "not_found")
    refused = await grep("foo", {"allowed_paths": []})
    assert refused.error is not None
    assert refused.error["code"] == "not_allowed"


@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/dev", "/sys", "/dev/shm"])
async def test_the_system_is_not_searched(grep: Call, path: str) -> None:
    """What the system shows of itself is refused, also when everything is allowed."""
    if not os.path.isdir(path):
        pytest.skip(f"there is no {path} here")
    result = await grep("foo", path=path)
    assert result.error is not None
    assert result.error["code"] == "not_allowed"


async def test_proc_links_lead_where_they_lead(grep: Call, asked: Asked, outside: Path) -> None:
    """The system's own links to folders are resolved like others."""
    if not os.path.isdir("/proc/self/root"):
        pytest.skip("there is no /proc here")
    result = await grep("foo", path=f"/proc/self/root{outside}")
    assert result.error is not None
    assert result.error["code"] == "denied"
    assert asked[0][1]["path"] == str(outside)


async def test_a_swap_after_the_decision_changes_nothing(
    grep: Call, coordinator: MockCoordinator, write: Write, project: Path, outside: Path
) -> None:
    """A folder that is replaced by a link while somebody decides is still the folder that was asked for."""
    write({"real/a": "foo\n"})
    (project / "link").symlink_to(project / "real")

    def swap(action: str, details: dict[str, Any]) -> str:
        (project / "real").rename(project / "moved")
        (project / "real").symlink_to(outside)
        return "allow"

    coordinator.register_policy("swap", swap)
    result = await grep("foo", path="link", output_mode="content")
    assert [entry["content"] for entry in result.output["results"]] == ["foo"]
    assert [os.path.basename(entry["file"]) for entry in result.output["results"]] == ["a"]


async def test_without_authorization_the_config_decides(
    write: Write, project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a kernel without policies links are searched, within allowed_paths; on ours such a session allows none."""

    class Coordinator:
        def get_capability(self, name: str) -> Any:
            return str(project) if name == "session.working_dir" else None

    (project / "link").symlink_to(outside)
    with pytest.raises(SearchError, match="cannot be asked"):
        await Places(Coordinator(), SearchConfig()).open("grep", {}, "link")
    monkeypatch.setattr("amplifier_kit.guard.authorization.kernel_has_policies", lambda: False)
    opened = await Places(Coordinator(), SearchConfig()).open("grep", {}, "link")
    assert opened.path == str(outside)
    opened.close()
    with pytest.raises(SearchError, match="outside of what this tool may search"):
        await Places(Coordinator(), SearchConfig(allowed_paths=(".",))).open("grep", {}, "link")


async def test_relative_paths(coordinator: MockCoordinator, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths start from the config's folder, else the session's, else the current one."""
    monkeypatch.chdir(project.parent)
    assert Places(coordinator, SearchConfig(working_dir="sub")).working_dir() == str(project / "sub")
    assert Places(coordinator, SearchConfig(working_dir="/x")).working_dir() == "/x"
    coordinator.register_capability("session.working_dir", None)
    assert Places(coordinator, SearchConfig()).working_dir() == f"{project.parent}/"


async def test_a_path_that_never_answers(
    coordinator: MockCoordinator, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path on a dead share is a failure after a while, and what it opens later is closed."""
    import threading

    answered = threading.Event()
    closed = threading.Event()
    real = open_place

    def slow(path: str, home: str) -> Any:
        answered.wait(30)
        opened = real(path, home)
        close_place = opened.close

        def close() -> None:
            close_place()
            closed.set()

        monkeypatch.setattr(opened, "close", close)
        return opened

    monkeypatch.setattr(place_module, "open_place", slow)
    monkeypatch.setattr(place_module, "PATIENCE", 0.05)
    with pytest.raises(SearchError, match="did not answer"):
        await Places(coordinator, SearchConfig()).open("grep", {}, "")
    answered.set()
    assert await asyncio.to_thread(closed.wait, 30)


async def test_nothing_stays_open(grep: Call, glob: Call, asked: Asked, write: Write, project: Path) -> None:
    """Searches, refused or not, leave no file open."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("there is no /proc here")
    write({"a": "foo\n"})
    (project / "link").symlink_to("/etc")

    async def search() -> None:
        await grep("foo", glob="*")
        await grep("foo", path="a")
        await grep("foo", path="link")
        await grep("(")
        await glob("src/*")
        await glob("*", path="a")

    await search()
    before = set(os.listdir("/proc/self/fd"))
    await search()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_a_place_that_cannot_be_made_is_closed_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second close could hit a file that something else has opened meanwhile."""
    closed: list[int] = []
    close = os.close

    def record(fd: int) -> None:
        closed.append(fd)
        close(fd)

    def fail(path: str) -> bool:
        raise OSError("the disk is gone")

    monkeypatch.setattr(place_module, "_is_in_repository", fail)
    monkeypatch.setattr(os, "close", record)
    with contextlib.suppress(OSError):  # keeps no traceback, so that the place is deleted here
        open_place(str(project), str(project))
    assert len(closed) == 1
