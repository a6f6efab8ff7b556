"""What an action would do, from the input of any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.facts import Facts, facts

PROJECT = Path("/project")


def found(action: str, tool: str = "", **given: Any) -> Facts:
    """Return the facts of a tool's input."""
    return facts(action, {"tool_name": tool, "tool_input": given}, PROJECT)


@pytest.mark.parametrize("key", ["path", "file_path", "filename", "directory", "notebook_path"])
def test_path_is_found_under_the_names_tools_use(key: str) -> None:
    """A path is taken relative to the project, whatever the tool calls it."""
    assert found("filesystem.read", **{key: "a/../b"}).paths == (PROJECT / "b",)


def test_details_win_over_the_input() -> None:
    """What a tool says it resolved is judged instead of what it was given."""
    details = {"tool_name": "read_file", "tool_input": {"file_path": "@bundle:x"}, "path": "/elsewhere/x"}
    read = facts("filesystem.read", details, PROJECT)
    assert (read.paths, read.problem) == ((Path("/elsewhere/x"),), "")


def test_working_dir_is_where_relative_paths_start() -> None:
    """A folder below the project, or another one."""
    details = {"tool_input": {"path": "x"}, "working_dir": "sub"}
    assert facts("filesystem.read", details, PROJECT).paths == (PROJECT / "sub/x",)


def test_several_paths_are_all_found() -> None:
    """Lists, and both names of a move."""
    assert found("filesystem.write", files=["a", "b"], destination="c").paths == (
        PROJECT / "a",
        PROJECT / "b",
        PROJECT / "c",
    )


def test_patch_names_its_files() -> None:
    """Every file that a patch adds, updates, deletes or moves is one of its paths."""
    lines = ["*** Begin Patch", "*** Add File: a", "+x", "*** Update File: b", "*** Move to: c/d", "@@", "-x", "+y"]
    patch = "\n".join([*lines, "*** Delete File: ../e", "*** End Patch"])
    paths = found("filesystem.write", "apply_patch", patch=patch).paths
    assert paths == (PROJECT / "a", PROJECT / "b", PROJECT / "c/d", Path("/e"))
    assert found("filesystem.write", "apply_patch", patch="*** Begin Patch").problem


def test_search_without_a_path_is_about_the_whole_project() -> None:
    """A search looks below the folder it runs in."""
    assert found("filesystem.read", "grep", pattern="x").paths == (PROJECT,)
    assert found("filesystem.read", "glob", pattern="**/*.py", path="src").paths == (PROJECT / "src",)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("../*", "/"), ("/etc/*", "/etc"), ("/*", "/"), ("src/../../x/**", "/x"), ("/etc/passwd", "/etc/passwd")],
)
def test_pattern_of_a_glob_may_lead_out(pattern: str, path: str) -> None:
    """A glob's pattern is a path as well."""
    assert Path(path) in found("filesystem.read", "glob", pattern=pattern).paths


def test_pattern_that_goes_up_after_a_wildcard_is_a_problem() -> None:
    """Where it leads depends on what is there."""
    assert found("filesystem.read", "glob", pattern="*/../../x").problem


def test_download_writes_its_file() -> None:
    """A fetch that saves is a fetch and a write."""
    fetched = found("network.fetch", "web_fetch", url="https://example.com/x", save_to_file="out/x")
    assert (fetched.hosts, fetched.writes) == (("example.com",), (PROJECT / "out/x",))


def test_command_is_found_in_any_tool() -> None:
    """A tool without an action of its own is still seen to run a command."""
    assert [segment.words for segment in found("tool.bash", "bash", command="ls; rm x").commands or ()] == [
        ("ls",),
        ("rm", "x"),
    ]


def test_words_of_a_command_need_no_shell() -> None:
    """A list of words is one command, whatever characters are in it."""
    commands = found("process.exec", command=["git", "commit", "-m", "a; rm $(x)"]).commands
    assert commands is not None
    assert [segment.words for segment in commands] == [("git", "commit", "-m", "a; rm $(x)")]


@pytest.mark.parametrize(
    "given", [{}, {"command": ""}, {"command": " \n"}, {"command": 3}, {"command": []}, {"command": ["a", 3]},
              {"command": "a\0b"}, {"command": "a\ud800"}, {"command": None}]
)  # fmt: skip
def test_execution_without_a_command_is_a_problem(given: dict[str, Any]) -> None:
    """What runs has to be a text that can run."""
    assert found("process.exec", **given).problem


@pytest.mark.parametrize(
    "path", ["", "a\0b", "/proc/self/environ", "/dev/fd/3", "~nobody/x", "@b:x", "x" * 5000, 3, {"a": 1}]
)
def test_path_that_cannot_be_judged_is_a_problem(path: Any) -> None:
    """Such a path is not found, and says why."""
    read = found("filesystem.read", path=path)
    assert read.problem
    assert read.paths == ()


def test_links_are_followed_and_both_names_kept(tmp_path: Path) -> None:
    """The real path is judged; the written one is there for rules that restrict."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    read = facts("filesystem.read", {"path": "link/x"}, tmp_path)
    assert read.paths == ((tmp_path / "real" / "x").resolve(),)
    assert read.spelled == (tmp_path / "link" / "x",)


def test_unusual_address_is_a_problem_and_still_named() -> None:
    """A rule that denies the address denies its other forms; none of them is allowed."""
    fetched = found("network.fetch", url="http://0x7f.1/")
    assert fetched.hosts == ("127.0.0.1",)
    assert "unusual form" in fetched.problem


@pytest.mark.parametrize(
    "details", [{}, {"tool_input": None}, {"tool_input": [1]}, {"tool_name": 3}, {"path": object()}]
)
def test_strange_details_never_raise(details: dict[str, Any]) -> None:
    """Whatever a caller gives, there is an answer."""
    assert facts("tool.x", details, PROJECT).action == "tool.x"
