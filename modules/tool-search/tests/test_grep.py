"""grep answers what is asked, in the published shape, whichever engine searches."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]


async def test_files_are_the_default(grep: Call, write: Write) -> None:
    """Without an output mode the files that match come, by path."""
    write({"b.py": "foo\n", "a/c.py": "x foo\n", "d.py": "bar\n"})
    result = await grep("foo")
    assert result.success
    assert result.output == {
        "pattern": "foo",
        "output_mode": "files_with_matches",
        "total_matches": 2,
        "matches_count": 2,
        "files": ["a/c.py", "b.py"],
    }


async def test_lines(grep: Call, write: Write) -> None:
    """Mode content returns file, line number and line; its line end, also CRLF, is not part of it."""
    write({"a.txt": "one foo\r\ntwo\r\nfoo\r\n"})
    result = await grep("foo$", output_mode="content")
    assert result.output == {
        "pattern": "foo$",
        "output_mode": "content",
        "total_matches": 2,
        "matches_count": 2,
        "results": [
            {"file": "a.txt", "line_number": 1, "content": "one foo"},
            {"file": "a.txt", "line_number": 3, "content": "foo"},
        ],
    }


async def test_counts(grep: Call, write: Write) -> None:
    """Mode count returns the number of matching lines by file, and their sum."""
    write({"a": "foo foo\nfoo\n", "b": "foo\n"})
    result = await grep("foo", output_mode="count")
    assert result.output["counts"] == {"a": 2, "b": 1}
    assert (result.output["total_matches"], result.output["matches_count"]) == (3, 2)


async def test_context_lines_are_marked(grep: Call, write: Write) -> None:
    """Lines around a match come once each, marked, and do not count as matches."""
    write({"a": "1\nfoo\n3\nfoo\n5\n6\n"})
    result = await grep("foo", output_mode="content", **{"-C": 1})
    lines = [(entry["line_number"], entry.get("is_context", False)) for entry in result.output["results"]]
    assert lines == [(1, True), (2, False), (3, True), (4, False), (5, True)]
    assert result.output["total_matches"] == 2


async def test_after_and_before_beat_around(grep: Call, write: Write) -> None:
    """-A and -B each win over -C."""
    write({"a": "1\n2\nfoo\n4\n5\n"})
    result = await grep("foo", output_mode="content", **{"-C": 2, "-A": 0})
    assert [entry["line_number"] for entry in result.output["results"]] == [1, 2, 3]


async def test_no_line_numbers(grep: Call, write: Write) -> None:
    """-n false leaves the numbers out."""
    write({"a": "foo\n"})
    result = await grep("foo", output_mode="content", **{"-n": False})
    assert result.output["results"] == [{"file": "a", "content": "foo"}]


async def test_case(grep: Call, write: Write) -> None:
    """Case counts unless -i is given, also for letters that are not ASCII."""
    write({"a": "Éclair\n"})
    assert (await grep("éclair")).output["files"] == []
    assert (await grep("éclair", **{"-i": True})).output["files"] == ["a"]


async def test_multiline(grep: Call, write: Write) -> None:
    """A match that spans lines gives all of them; without multiline a line break in the pattern is an error."""
    write({"a": "x\nbegin\nmiddle\nend\ny\n"})
    result = await grep("begin.*end", output_mode="content", multiline=True)
    assert [entry["content"] for entry in result.output["results"]] == ["begin", "middle", "end"]
    assert (await grep("begin.*end")).output["files"] == []
    for pattern in ("begin\nmiddle", r"begin\nmiddle"):
        refused = await grep(pattern)
        assert refused.error is not None
        assert refused.error["code"] == "invalid_pattern"
        assert "multiline" in refused.error["message"]
    assert (await grep(r"a\\n")).success


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"glob": "*.py"}, ["a.py", "src/b.py"]),
        ({"glob": "src/*"}, ["src/b.py", "src/c.ts"]),
        ({"glob": "!*.py"}, ["src/c.ts", "src/deep/d.tsx"]),
        ({"glob": "**/*.{ts,tsx}"}, ["src/c.ts", "src/deep/d.tsx"]),
        ({"type": "python"}, ["a.py", "src/b.py"]),
        ({"type": "TypeScript"}, ["src/c.ts", "src/deep/d.tsx"]),
        ({"type": "ts", "glob": "src/*"}, ["src/c.ts"]),
        ({"path": "src", "glob": "deep/*"}, ["src/deep/d.tsx"]),
        ({"path": "src/b.py"}, ["src/b.py"]),
        ({"path": "src/b.py", "type": "rust"}, []),
        ({"path": "src/b.py", "glob": "*.ts"}, []),
    ],
)
async def test_narrowing(grep: Call, write: Write, given: dict[str, Any], files: list[str]) -> None:
    """Paths, globs and types narrow a search, together as well."""
    write(dict.fromkeys(("a.py", "src/b.py", "src/c.ts", "src/deep/d.tsx"), "foo\n"))
    assert (await grep("foo", **given)).output["files"] == files


async def test_paging(grep: Call, write: Write) -> None:
    """offset and head_limit cut a part out; results_capped says that there is more behind; 0 is no limit."""
    write({f"{number}.txt": "foo\nfoo\n" for number in range(5)})
    first = (await grep("foo", head_limit=2)).output
    assert (first["files"], first["total_matches"], first["results_capped"]) == (["0.txt", "1.txt"], 5, True)
    last = (await grep("foo", head_limit=2, offset=3)).output
    assert (last["files"], last.get("results_capped")) == (["3.txt", "4.txt"], None)
    lines = (await grep("foo", output_mode="content", head_limit=3, offset=1)).output
    assert [(entry["file"], entry["line_number"]) for entry in lines["results"]] == [
        ("0.txt", 2),
        ("1.txt", 1),
        ("1.txt", 2),
    ]
    assert (lines["total_matches"], lines["matches_count"], lines["results_capped"]) == (10, 3, True)
    config = {"grep": {"default_limits": {"count": 1}}}
    assert len((await grep("foo", config, output_mode="count")).output["counts"]) == 1
    assert len((await grep("foo", config, output_mode="count", head_limit=0)).output["counts"]) == 5


async def test_what_is_left_out(grep: Call, write: Write) -> None:
    """Ignored files and excluded folders are left out, at any depth, until include_ignored lifts both."""
    names = ["a.py", "b.log", "build/c", "x/node_modules/d", ".github/e", "x/build"]
    write(dict.fromkeys(names, "foo\n") | {".gitignore": "*.log\n"})
    assert (await grep("foo")).output["files"] == [".github/e", "a.py", "x/build"]
    assert (await grep("foo", include_ignored=True)).output["files"] == sorted(names)
    assert (await grep("foo", {"grep": {"exclusions": ["x"]}})).output["files"] == [".github/e", "a.py", "build/c"]


async def test_rules_from_above_count_in_a_repository(grep: Call, write: Write) -> None:
    """Searching a part of a repository leaves out the same as searching all of it."""
    write({".git/HEAD": "", ".gitignore": "/src/gen\n", "src/gen/a": "foo\n", "src/b": "foo\n"})
    assert (await grep("foo", path="src")).output["files"] == ["src/b"]
    assert (await grep("foo", path="src/gen")).output["files"] == ["src/gen/a"]


async def test_encodings(grep: Call, write: Write) -> None:
    """UTF-8 and UTF-16 with a mark, and bytes that are neither, are searched; what has a NUL in it is not."""
    write(
        {
            "bom8": b"\xef\xbb\xbffoo\n",
            "bom16": "foo é\n".encode("utf-16"),
            "latin": b"foo \xe9\n",
            "binary": b"foo\n\0\n",
            "no_end": b"foo",
        }
    )
    result = await grep("^foo", output_mode="content")
    assert {entry["file"]: entry["content"] for entry in result.output["results"]} == {
        "bom8": "foo",
        "bom16": "foo é",
        "latin": "foo \ufffd",
        "no_end": "foo",
    }


async def test_a_binary_file_that_was_named(grep: Call, write: Write) -> None:
    """Naming a binary file finds nothing, and says why."""
    write({"a.bin": b"foo\n\0"})
    result = await grep("foo", path="a.bin")
    assert result.output["files"] == []
    assert "binary" in result.output["notes"][0]


async def test_names_that_are_not_utf8(grep: Call, write: Write) -> None:
    """A name with bytes that are no UTF-8 is shown with its bytes, and can be stored."""
    write({"\udcff.txt": "foo\n", "é\nx": "foo\n"})
    result = await grep("foo")
    assert result.output["files"] == ["é\nx", r"\xff.txt"]
    result.model_dump_json()


async def test_names_that_look_like_what_is_said_of_files(grep: Call, write: Write) -> None:
    """A line is told of the file it is in, however its name is made; nothing is told of the lines of a binary file."""
    late = "foo late\n" + "x\n" * 60_000 + "\0"
    odd = ["a\n\n", "a: WARNING: stopped searching binary file after match\n\n", "7:foo\n", "b\n--\n2-"]
    write({name + "z": f"foo {number}\nbar\n" for number, name in enumerate(odd)} | {"a": "foo a\n", "b": late})
    write({name + "late": late for name in odd})
    result = await grep("foo", output_mode="content", **{"-A": 1, "path": "."})
    told = [(entry["file"], entry["content"]) for entry in result.output["results"]]
    expected = [
        ("a", "foo a"),
        *((name + "z", text) for number, name in enumerate(odd) for text in (f"foo {number}", "bar")),
    ]
    assert sorted(told) == sorted(expected)


async def test_large_files_are_skipped_with_a_note(grep: Call, write: Write) -> None:
    """Files over the size limit are not searched; where nothing was found in others, those that count are named."""
    large = "foo\n" * 100
    write({"large.txt": large, "large.md": large, "build/large.txt": large, "off.txt": large, "small.txt": "bar\n"})
    write({".gitignore": "off.txt\n"})
    config = {"grep": {"max_file_size": 100}}
    result = await grep("bar", config)
    assert (result.output["files"], "notes" in result.output) == (["small.txt"], False)
    for given in ({"glob": "*.txt"}, {"glob": "!*.md"}, {"type": "txt"}, {"path": ".", "glob": "{l,s}*.txt"}):
        for mode in ("files_with_matches", "content", "count"):
            result = await grep("foo", config, output_mode=mode, **given)
            assert result.output["total_matches"] == 0
            assert result.output["notes"] == ["larger than 100 bytes, not searched: large.txt (400 bytes)"]
    named = await grep("foo", config, path="large.txt")
    assert (named.output["files"], len(named.output["notes"])) == ([], 1)


async def test_long_lines_are_cut(grep: Call, write: Write) -> None:
    """A line of a minified file does not fill the answer."""
    write({"a.js": "foo" + "x" * 100_000 + "\n"})
    [entry] = (await grep("foo", output_mode="content")).output["results"]
    assert len(entry["content"]) < 2100
    assert entry["content"].endswith("[98,003 more characters]")


async def test_long_answers_are_cut(grep: Call, write: Write) -> None:
    """However many entries are asked for, an answer has an end, and says so."""
    write({"a": ("foo" + "x" * 1000 + "\n") * 400})
    output = (await grep("foo", output_mode="content", head_limit=0)).output
    assert 200 < output["matches_count"] < 300
    assert output["total_matches"] == 400
    assert output["results_capped"]
    assert "offset" in output["notes"][0]


async def test_links_are_not_followed(grep: Call, write: Write, project: Path, tmp_path: Path) -> None:
    """Links to files and folders inside and outside are left alone in a search."""
    write({"src/a": "foo\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("foo\n", encoding="utf-8")
    (project / "link").symlink_to(outside)
    (project / "file_link").symlink_to(outside / "secret")
    (project / "loop").symlink_to(project)
    assert (await grep("foo")).output["files"] == ["src/a"]


async def test_pipes_are_never_opened(grep: Call, write: Write, project: Path) -> None:
    """A pipe in the tree does not hold the search up, and one that is named is refused."""
    write({"a": "foo\n"})
    os.mkfifo(project / "pipe")
    assert (await grep("foo")).output["files"] == ["a"]
    refused = await grep("foo", path="pipe")
    assert refused.error is not None
    assert refused.error["code"] == "not_a_file"


def make_unreadable_folder(project: Path) -> None:
    """Make a folder whose path is longer than the system takes: permissions do not count for root."""
    folder = os.open(project, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


async def test_folders_that_cannot_be_read_are_noted(grep: Call, write: Write, project: Path) -> None:
    """A folder that cannot be opened is named, and the rest is searched."""
    write({"a": "foo\n"})
    make_unreadable_folder(project)
    result = await grep("foo")
    assert result.output["files"] == ["a"]
    assert "cannot be read" in result.output["notes"][0]
    assert "too long" in result.output["notes"][0]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"pattern": "("}, "invalid_pattern"),
        ({"pattern": ""}, "invalid_input"),
        ({"pattern": 3}, "invalid_input"),
        ({"pattern": "a", "path": 3}, "invalid_input"),
        ({"pattern": "a", "path": "a\0b"}, "invalid_input"),
        ({"pattern": "a", "path": "none"}, "not_found"),
        ({"pattern": "a", "type": "klingon"}, "unknown_type"),
        ({"pattern": "a", "glob": "[a"}, "invalid_pattern"),
        ({"pattern": "a", "output_mode": "all"}, "invalid_input"),
        ({"pattern": "a", "head_limit": -1}, "invalid_input"),
        ({"pattern": "a", "-i": "maybe"}, "invalid_input"),
        ({"pattern": "a", "-A": 1.5}, "invalid_input"),
        ({"pattern": "a\0"}, "invalid_input"),
    ],
)
async def test_what_makes_no_sense(grep: Call, given: dict[str, Any], code: str) -> None:
    """Wrong input is a failure with a code, and a message that is the output too."""
    result = await grep(**given)
    assert not result.success
    assert result.error is not None
    assert result.error["code"] == code
    assert result.output == result.error["message"]


async def test_numbers_and_flags_as_text(grep: Call, write: Write) -> None:
    """Models that write numbers and flags in quotes are understood."""
    write({"a": "FOO\n", "b": "foo\n"})
    assert (await grep("foo", head_limit="1", **{"-i": "true"})).output["files"] == ["a"]


async def test_a_folder_that_cannot_be_read_is_named_once(
    grep: Call, write: Write, project: Path, coordinator: MockCoordinator
) -> None:
    """However often a search looks at the folders, for rules and for files that are too large, a note names it once."""
    write({"a": "foo\n"})
    coordinator.register_capability("policy.hidden", lambda tool: lambda path: False)
    make_unreadable_folder(project)
    [note] = (await grep("nothing")).output["notes"]
    assert note.count("too long") == 1


async def test_lookaround(make_tools: Any, write: Write) -> None:
    """What ripgrep may not understand, and Python does, is found unless the config insists on ripgrep."""
    write({"a": "foobar\nfoo\n", "b": "foo foo\n"})
    tools = await make_tools()
    assert (await tools["grep"].execute({"pattern": "foo(?=bar)"})).output["files"] == ["a"]
    assert (await tools["grep"].execute({"pattern": r"(foo) \1"})).output["files"] == ["b"]
