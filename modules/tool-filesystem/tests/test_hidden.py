"""What the session's rules hide is not named by a tool that was asked for something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule

Hide = Callable[..., None]


@pytest.fixture
def hide(desk: Any, project: Path) -> Hide:
    """Give `hide(*patterns, verdict="deny")`: the rules of the session."""

    def add(*patterns: str, verdict: Any = "deny") -> None:
        rules = [Rule(verdict, path=pattern) for pattern in patterns]
        desk.coordinator.register_capability("policy.hidden", lambda tool: hidden_paths(rules, project, tool))

    return add


@pytest.fixture
def tree(project: Path) -> Path:
    """Write files and folders, and links to them."""
    for name in ("secrets/key", "src/main.py", ".env", "a.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("text", encoding="utf-8")
    (project / "to_key").symlink_to("secrets/key")
    (project / "to_secrets").symlink_to(project / "secrets")
    (project / "to_link").symlink_to("to_key")
    (project / "to_nothing").symlink_to("secrets/none")
    (project / "secrets" / "back").symlink_to("../a.txt")
    (project / "to_back").symlink_to("secrets/back")
    (project / "to_a").symlink_to("a.txt")
    return project


async def test_a_listing_leaves_out_what_is_hidden(desk: Any, tree: Path, hide: Hide) -> None:
    """Neither hidden entries nor links that lead to them are named or counted; how many there are is said."""
    hide("secrets/**", "**/.env")
    listed = await desk.done("read_file", file_path=".")
    assert listed["content"] == "src/\na.txt\nto_a -> a.txt"
    assert listed["entry_count"] == 3
    assert listed["warning"] == "7 entries are left out because rules restrict them."


async def test_one_is_left_out(desk: Any, tree: Path, hide: Hide) -> None:
    """One entry is said to be one."""
    hide("src/*")
    listed = await desk.done("read_file", file_path="src")
    assert (listed["content"], listed["entry_count"]) == ("", 0)
    assert listed["warning"] == "1 entry is left out because rules restrict it."


async def test_without_rules_all_is_listed(desk: Any, tree: Path, hide: Hide) -> None:
    """Rules that are not about reading hide nothing."""
    hide("secrets/**", verdict="allow")
    assert (await desk.done("read_file", file_path="."))["entry_count"] == len(os.listdir(tree))


async def test_a_folder_that_was_asked_for_is_listed(desk: Any, tree: Path, hide: Hide) -> None:
    """Who has allowed a folder to be read has answered the rule that asks for it."""
    hide("secrets/**", verdict="ask")
    assert "secrets" not in (await desk.done("read_file", file_path="."))["content"]
    listed = await desk.done("read_file", file_path="secrets")
    assert (listed["content"], "warning" in listed) == ("back -> ../a.txt\nkey", False)


@pytest.mark.parametrize(
    ("tool", "path"), [("read_file", "secret/key"), ("read_file", ".enw"), ("edit_file", "secret")]
)
async def test_no_hidden_name_is_proposed(desk: Any, tree: Path, hide: Hide, tool: str, path: str) -> None:
    """A name that resembles a hidden one brings no hint at it."""
    edit = {"old_string": "a", "new_string": "b"} if tool == "edit_file" else {}
    assert "did you mean" in (await desk.refused(tool, file_path=path, **edit))[1]
    hide("secrets/**", "**/.env")
    code, message = await desk.refused(tool, file_path=path, **edit)
    assert code == "not_found"
    assert "did you mean" not in message


def _raising(*_: Any) -> Any:
    raise RuntimeError("the rules are gone")


@pytest.mark.parametrize("capability", [_raising, lambda tool: _raising, "text"])
async def test_a_failure_hides_everything(desk: Any, tree: Path, capability: Any) -> None:
    """When it cannot be told what is hidden nothing is listed or proposed, and the reason is told; files are read."""
    desk.coordinator.register_capability("policy.hidden", capability)
    for path in (".", "secret/key"):
        code, message = await desk.refused("read_file", file_path=path)
        assert code == "denied"
        assert "nothing is shown: cannot find out which paths the rules restrict" in message
        assert "secrets" not in message
    assert "text" in (await desk.done("read_file", file_path="a.txt"))["content"]
