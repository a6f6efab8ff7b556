"""What the session's rules hide is not searched, listed, named or counted, by either engine."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule
from amplifier_module_tool_search import ripgrep as ripgrep_module
from amplifier_module_tool_search.output import Notes
from amplifier_module_tool_search.ripgrep import exclude_paths

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]
Hide = Callable[..., list[str]]

ONE = "1 file or folder is left out because rules restrict it"
TWO = "2 files and folders are left out because rules restrict them"
TREE = {
    "a.py": "before\nfoo\nafter\n",
    "src/b.py": "foo\nfoo\n",
    "src/.env": "foo KEY\n",
    "secrets/key": "KEY foo\nKEY near\n",
    "secrets/deep/key": "foo\n",
}


@pytest.fixture
def hide(coordinator: MockCoordinator, project: Path) -> Hide:
    """Give `hide(pattern, verdict="deny")`: rules of the session; returns for which paths it was asked."""
    rules: list[Rule] = []
    asked: list[str] = []

    def offered(tool: str) -> Any:
        found = hidden_paths(rules, project, tool)
        if found is None:
            return None

        def is_hidden(path: str) -> bool:
            asked.append(path)
            return found(path)

        return is_hidden

    def add(pattern: str, **given: Any) -> list[str]:
        rules.append(Rule(**{"verdict": "deny", **given}, path=pattern))
        return asked

    coordinator.register_capability("policy.hidden", offered)
    return add


@pytest.fixture
def restricted(write: Write, hide: Hide) -> list[str]:
    """Write files, some of which are hidden."""
    write(TREE)
    hide("secrets/**")
    return hide("**/.env")


async def test_files_with_matches(grep: Call, restricted: list[str]) -> None:
    """Files that are hidden are neither named nor counted; a note says how many places are left out."""
    found = (await grep("foo")).output
    assert found["files"] == ["a.py", "src/b.py"]
    assert (found["total_matches"], found["matches_count"]) == (2, 2)
    assert found["notes"] == [TWO]


async def test_counts(grep: Call, restricted: list[str]) -> None:
    """Numbers and totals are those of the files that are shown, also for matches over lines."""
    for given in ({}, {"multiline": True}):
        found = (await grep("foo", output_mode="count", **given)).output
        assert found["counts"] == {"a.py": 1, "src/b.py": 2}
        assert found["total_matches"] == 3


async def test_lines_and_context(grep: Call, restricted: list[str]) -> None:
    """Neither lines that match nor those around them come from a hidden file; paging does not count them."""
    found = (await grep("foo", output_mode="content", **{"-C": 2})).output
    assert {entry["file"] for entry in found["results"]} == {"a.py", "src/b.py"}
    assert [entry["content"] for entry in found["results"]] == ["before", "foo", "after", "foo", "foo"]
    assert found["total_matches"] == 3
    assert "KEY" not in json.dumps(found)
    paged = (await grep("foo", output_mode="content", offset=1, head_limit=1)).output
    assert [entry["file"] for entry in paged["results"]] == ["src/b.py"]


@pytest.mark.parametrize("pattern", ["KEY", "KEY near", "no such thing", "foo"])
async def test_the_number_tells_nothing_about_contents(grep: Call, restricted: list[str], pattern: str) -> None:
    """What is left out is counted by where it is, whether or not it would match: numbers spell out no secret."""
    assert (await grep(pattern, output_mode="count")).output["notes"] == [TWO]


@pytest.mark.parametrize("pattern", ["**/.e*", "**/.x*", "**", "*/*", "**/*.py"])
async def test_the_number_tells_nothing_about_names(glob: Call, restricted: list[str], pattern: str) -> None:
    """What is left out is counted whatever it is called."""
    assert (await glob(pattern)).output["notes"] == [TWO]


@pytest.mark.parametrize("given", [{"glob": "*.py"}, {"type": "python"}, {"glob": "!*.md"}, {"include_ignored": True}])
async def test_with_every_selection(grep: Call, restricted: list[str], given: dict[str, Any]) -> None:
    """However files are selected, hidden ones are not among them."""
    assert (await grep("foo", **given)).output["files"] == ["a.py", "src/b.py"]


@pytest.mark.parametrize("kind", ["file", "dir", "any"])
async def test_glob(glob: Call, restricted: list[str], kind: str) -> None:
    """Hidden files and folders are not listed, and not in the total."""
    found = (await glob("**", type=kind)).output
    expected = {"file": {"a.py", "src/b.py"}, "dir": {"src"}}
    expected["any"] = expected["file"] | expected["dir"]
    assert {entry["path"] for entry in found["matches"]} == expected[kind]
    assert found["total_files"] == len(expected[kind])
    assert found["notes"] == [TWO]


async def test_a_folder_is_not_entered(grep: Call, glob: Call, restricted: list[str], project: Path) -> None:
    """Nothing in a hidden folder is even asked for."""
    await grep("foo")
    await glob("**/*")
    assert f"{project}/secrets" in restricted
    assert not [path for path in restricted if path.startswith(f"{project}/secrets/")]


@pytest.mark.parametrize("room", [0, 1000])
async def test_a_rule_about_the_folder_alone(
    grep: Call, glob: Call, hide: Hide, write: Write, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """A search that may not look at a folder shows nothing in it, although a file in it may be read by its name."""
    monkeypatch.setattr(ripgrep_module, "_MAX_EXCLUDED", room)
    write(TREE)
    hide("secrets")
    assert (await grep("foo")).output["files"] == ["a.py", "src/.env", "src/b.py"]
    assert (await glob("**/key")).output["matches"] == []


async def test_a_rule_for_one_tool(grep: Call, glob: Call, hide: Hide, write: Write) -> None:
    """A rule that names a tool hides from that tool."""
    write(TREE)
    hide("secrets/**", tool="grep")
    assert len((await grep("foo")).output["files"]) == 3
    found = (await glob("secrets/*")).output
    assert [entry["path"] for entry in found["matches"]] == ["secrets/key"]
    assert "notes" not in found


async def test_what_is_asked_for_is_left_out(grep: Call, hide: Hide, write: Write) -> None:
    """A search does not ask for each file: what would be asked for is left out."""
    write(TREE)
    hide("secrets/**", verdict="ask")
    found = (await grep("foo")).output
    assert "secrets/key" not in found["files"]
    assert found["notes"] == [ONE]


async def test_a_place_that_was_asked_for_is_shown(
    grep: Call, coordinator: MockCoordinator, project: Path, write: Write
) -> None:
    """Who has allowed the search of a folder has answered the rule that asks for it; denials in it stay."""
    write(TREE)
    rules = [Rule("ask", path="secrets/**"), Rule("deny", path="secrets/deep/**")]
    coordinator.register_capability("policy.hidden", lambda tool: hidden_paths(rules, project, tool))
    found = (await grep("foo", path="secrets")).output
    assert found["files"] == ["secrets/key"]
    assert found["notes"] == [ONE]


async def test_links_are_followed_first(grep: Call, glob: Call, restricted: list[str], project: Path) -> None:
    """What is asked for is the real path, whatever link led to the folder that is searched."""
    (project / "alias").symlink_to("src")
    assert (await grep("foo", path="alias")).output["files"] == ["src/b.py"]
    assert [entry["path"] for entry in (await glob("*", path="alias")).output["matches"]] == ["src/b.py"]
    assert f"{project}/src/.env" in restricted


async def test_a_gitignore_brings_nothing_back(grep: Call, glob: Call, restricted: list[str], write: Write) -> None:
    """A rule of a repository that takes a file in does not show it."""
    write({".gitignore": "!secrets/\n!secrets/key\n!.env\n", "src/.gitignore": "!.env\n"})
    assert (await grep("foo")).output["files"] == ["a.py", "src/b.py"]
    assert not [entry for entry in (await glob("**")).output["matches"] if "secrets" in entry["path"]]


async def test_what_is_ignored_is_not_counted(grep: Call, restricted: list[str], write: Write) -> None:
    """Only what would have been searched is left out."""
    write({".gitignore": "secrets/\n"})
    assert (await grep("foo")).output["notes"] == [ONE]
    assert (await grep("foo", include_ignored=True)).output["notes"] == [TWO]


async def test_large_hidden_files_are_not_named(grep: Call, restricted: list[str], write: Write) -> None:
    """A search that finds nothing names files that are too large, but none that is hidden."""
    write({"secrets/large": "x" * 200, "large": "x" * 200, "src/.env": "x" * 200})
    found = (await grep("nothing", {"grep": {"max_file_size": 100}})).output
    assert found["notes"] == [TWO, "larger than 100 bytes, not searched: large (200 bytes)"]


ODD = (
    "x y",
    "end ",
    "tab\t",
    "*",
    "**",
    "[a]",
    "{a,b}",
    "!a",
    "#a",
    "back\\slash",
    "a?",
    "\u00e9",
    "new\nline",
    "\udcff",
    "a: b",
)


@pytest.mark.parametrize("name", ODD)
async def test_odd_names(
    grep: Call, glob: Call, hide: Hide, write: Write, coordinator: MockCoordinator, name: str
) -> None:
    """Whatever a file is called, it and nothing else is hidden."""
    write({name: "foo\n", f"d/{name}": "foo\n", "other": "foo\n"})
    coordinator.register_capability("policy.hidden", lambda tool: lambda path: path.endswith(f"project/{name}"))
    shown = os.fsencode(f"d/{name}").decode("utf-8", "backslashreplace")
    assert (await grep("foo")).output["files"] == sorted([shown, "other"])
    assert {entry["path"] for entry in (await glob("**")).output["matches"]} == {shown, "other"}


@pytest.mark.parametrize("name", [name for name in ODD if name != "\udcff"])
def test_ripgrep_does_not_look(ripgrep: str, project: Path, write: Write, name: str) -> None:
    """The options keep ripgrep from exactly the path, also when a rule of the repository takes it in."""
    write({name: "foo\n", f"d/{name}": "foo\n", "other": "foo\n", ".gitignore": "!*\n"})
    argv = [ripgrep, "--files", "--null", "--hidden", "--no-require-git", *exclude_paths([name, "d/no", ".gitignore"])]
    listed = subprocess.run(argv, cwd=project, capture_output=True, check=True).stdout.decode().split("\0")
    assert sorted(listed) == sorted(["", f"d/{name}", "other"])


async def test_more_than_ripgrep_can_be_told(
    grep: Call, hide: Hide, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into its options is left out of what it finds."""
    monkeypatch.setattr(ripgrep_module, "_MAX_EXCLUDED", 100)
    write({f"d/{number}.key": "foo\n" for number in range(50)} | {"a": "foo\n"})
    hide("**/*.key")
    for mode in ("files_with_matches", "content", "count"):
        found = (await grep("foo", output_mode=mode)).output
        assert found["total_matches"] == 1
        assert "key" not in json.dumps(found)
        assert found["notes"] == ["50 files and folders are left out because rules restrict them"]


async def test_many_files_in_one_folder(grep: Call, glob: Call, hide: Hide, write: Write) -> None:
    """Questions are asked in parts, and each answer is for its own path."""
    write({f"{number:04}.{'key' if number % 7 == 0 else 'txt'}": "foo\n" for number in range(1200)})
    hide("*.key")
    found = (await grep("foo", head_limit=0)).output
    assert found["total_matches"] == 1200 - 172
    assert not [name for name in found["files"] if name.endswith("key")]
    assert (await glob("*")).output["total_files"] == 1200 - 172


async def test_no_rules_change_nothing(grep: Call, glob: Call, coordinator: MockCoordinator, write: Write) -> None:
    """With None for an answer, everything is shown and nothing is said."""
    write(TREE)
    coordinator.register_capability("policy.hidden", lambda tool: None)
    found = (await grep("foo")).output
    assert len(found["files"]) == 5
    assert "notes" not in found
    assert (await glob("**")).output["total_files"] == 5


def _raising(*_: Any) -> Any:
    raise RuntimeError("the rules are gone")


@pytest.mark.parametrize("capability", [_raising, lambda tool: _raising, lambda tool: 7, "text"])
async def test_a_failure_hides_everything(
    grep: Call, glob: Call, coordinator: MockCoordinator, write: Write, capability: Any
) -> None:
    """When it cannot be told what is hidden, nothing is shown, and the reason is."""
    write(TREE)
    coordinator.register_capability("policy.hidden", capability)
    for mode in ("files_with_matches", "content", "count"):
        refused = await grep("foo", output_mode=mode)
        assert refused.error is not None
        assert refused.error["code"] == "denied"
        assert "nothing is shown: cannot find out which paths the rules restrict" in refused.error["message"]
    for kind in ("file", "dir"):
        assert (await glob("**", type=kind)).error is not None


async def test_a_failure_later_hides_what_was_found(
    grep: Call, glob: Call, coordinator: MockCoordinator, write: Write
) -> None:
    """What was found before the failure is not shown either."""
    write(TREE)

    def is_hidden(path: str) -> bool:
        if path.endswith("deep/key"):
            raise RuntimeError("the rules are gone")
        return False

    coordinator.register_capability("policy.hidden", lambda tool: is_hidden)
    for refused in (await grep("foo"), await glob("**")):
        assert refused.error == {
            "message": "nothing is shown: cannot find out which paths the rules restrict: "
            "RuntimeError: the rules are gone",
            "code": "denied",
        }


async def test_a_file_that_was_named_was_decided_on(grep: Call, restricted: list[str]) -> None:
    """A single file is a matter of the call: policies have allowed it by then."""
    found = (await grep("foo", path="secrets/key", output_mode="content")).output
    assert [entry["content"] for entry in found["results"]] == ["KEY foo"]


async def test_a_file_that_comes_meanwhile_is_left_out(
    make_tools: Any, coordinator: MockCoordinator, write: Write, project: Path, engine: str
) -> None:
    """A hidden file that appears between the two looks is not shown."""
    write({"a": "foo\n", "b/c": "foo\n"})

    def is_hidden(path: str) -> bool:
        if not (project / "a.key").exists():
            (project / "a.key").write_text("foo\n", encoding="utf-8")
        return path.endswith(".key")

    coordinator.register_capability("policy.hidden", lambda tool: is_hidden)
    tools = await make_tools({"engine": engine})
    assert (await tools["grep"].execute({"pattern": "foo"})).output["files"] == ["a", "b/c"]


async def test_nothing_is_left_when_cancelled(
    make_tools: Any, coordinator: MockCoordinator, write: Write, engine: str
) -> None:
    """A call that is cancelled while it asks leaves no file open."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("there is no /proc here")
    write(TREE)
    asked = asyncio.Event()

    def is_hidden(path: str) -> bool:
        asked.set()
        return False

    coordinator.register_capability("policy.hidden", lambda tool: is_hidden)
    tools = await make_tools({"engine": engine})
    await tools["grep"].execute({"pattern": "foo"})
    before = len(os.listdir("/proc/self/fd"))
    for name in ("grep", "glob"):
        asked.clear()
        running = asyncio.ensure_future(tools[name].execute({"pattern": "**" if name == "glob" else "foo"}))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    "line",
    [
        "rg: ./secrets/x: Permission denied (os error 13)",
        "./secrets/x: Permission denied (os error 13)",
        "rg: ./secrets/a: b: Permission denied (os error 13)",
    ],
)
def test_trouble_with_hidden_files_is_not_told(line: str) -> None:
    """Neither name nor number of them; of a name that cannot be judged only that there is one."""
    notes = Notes(lambda path: path.startswith("secrets/"))
    notes.read(line.encode() + b"\nrg: ./src/x: Permission denied (os error 13)\n")
    assert notes.texts(1) == ["cannot be read: src/x (Permission denied)"]
    notes.read(b"rg: ./\xff: Permission denied (os error 13)\n")
    assert notes.texts(1) == ["cannot be read: a name that is not UTF-8, src/x (Permission denied)"]
