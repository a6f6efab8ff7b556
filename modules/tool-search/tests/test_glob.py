"""glob answers what is asked, in the published shape, whichever engine lists."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]


def paths(result: ToolResult) -> list[str]:
    assert result.success, result.error
    return [match["path"] for match in result.output["matches"]]


async def test_the_shape(glob: Call, write: Write, project: Path) -> None:
    """An answer names pattern and base, and has path, type and size of each match."""
    write({"src/a.py": "12345"})
    assert (await glob("**/*.py")).output == {
        "pattern": "**/*.py",
        "base_path": str(project),
        "total_files": 1,
        "count": 1,
        "matches": [{"path": "src/a.py", "type": "file", "size": 5}],
    }


async def test_newest_first(glob: Call, write: Write, project: Path) -> None:
    """What was changed last comes first; of the same age, by path."""
    write({"a": "", "b": "", "c": "", "d": ""})
    for name, age in (("a", 5), ("b", 9), ("c", 5), ("d", 7)):
        os.utime(project / name, (age, age))
    assert paths(await glob("*")) == ["b", "d", "a", "c"]


async def test_the_newest_are_kept(glob: Call, write: Write, project: Path) -> None:
    """When there are more than the limit, the oldest are left out, and all are counted."""
    write({f"{number}.txt": "" for number in range(9)})
    for number in range(9):
        os.utime(project / f"{number}.txt", (number, number))
    result = await glob("*.txt", {"glob": {"max_results": 2}})
    assert paths(result) == ["8.txt", "7.txt"]
    assert (result.output["total_files"], result.output["count"]) == (9, 2)
    assert result.output["results_capped"] is True


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pattern": "*"}, {"a.py"}),
        ({"pattern": "**/*.py"}, {"a.py", "src/b.py", "src/x/c.py"}),
        ({"pattern": "src/*.py"}, {"src/b.py"}),
        ({"pattern": "src/**"}, {"src/b.py", "src/x/c.py", "src/x/d.md"}),
        ({"pattern": "*.py", "path": "src"}, {"src/b.py"}),
        ({"pattern": "**/*", "exclude": ["*.py"]}, {"src/x/d.md"}),
        ({"pattern": "**/*", "exclude": ["src/x/**", "a.py"]}, {"src/b.py"}),
        ({"pattern": "**", "type": "dir"}, {"src", "src/x", "empty"}),
        ({"pattern": "src/**", "type": "any"}, {"src/b.py", "src/x", "src/x/c.py", "src/x/d.md"}),
        ({"pattern": "**/{c,d}.*"}, {"src/x/c.py", "src/x/d.md"}),
        ({"pattern": "none*"}, set()),
    ],
)
async def test_patterns(glob: Call, write: Write, project: Path, given: dict[str, Any], found: set[str]) -> None:
    """Patterns are for the whole path below the folder; types and exclusions narrow them."""
    write(dict.fromkeys(("a.py", "src/b.py", "src/x/c.py", "src/x/d.md"), ""))
    (project / "empty").mkdir()
    assert set(paths(await glob(**given))) == found


async def test_what_is_left_out(glob: Call, write: Write) -> None:
    """Ignored files and excluded folders are left out until include_ignored lifts both."""
    names = {"a.py", "b.log", "build/c", "x/node_modules/d", ".env", "x/build"}
    write(dict.fromkeys(names, "") | {".gitignore": "*.log\n"})
    assert set(paths(await glob("**"))) == {"a.py", ".env", "x/build", ".gitignore"}
    assert set(paths(await glob("**/*.log"))) == set()
    assert set(paths(await glob("**", include_ignored=True))) == names | {".gitignore"}
    assert set(paths(await glob("**", type="dir"))) == {"x"}


@pytest.mark.parametrize("pattern", ["**", "src/**", "**/*", "**/[ab]*", "src/*/a", "**/deep/**", "s*/**/a"])
async def test_a_pattern_does_not_lift_the_rules(glob: Call, write: Write, pattern: str) -> None:
    """What is in an ignored folder is not found, however closely the pattern fits the folder."""
    write({"src/deep/a": "", "src/b/a": "", "src/b/deep/a": "", ".gitignore": "deep\n"})
    found = set(paths(await glob(pattern))) - {".gitignore"}
    assert found == (set() if pattern == "**/deep/**" else {"src/b/a"})


@pytest.mark.parametrize("pattern", ["**", "**/*", "x*/**", "**/c/**", "*/c/**/h*", "**/f/h?i.py", "x*/**/*.py"])
async def test_line_breaks_in_names(glob: Call, grep: Call, write: Write, pattern: str) -> None:
    """Folders and files with line breaks in their names are found like others."""
    path = "x\ny/c/d\ne/f/h\ni.py"
    write({path: "foo\n"})
    assert paths(await glob(pattern)) == [path]
    assert (await grep("foo", glob=pattern)).output["files"] == [path]


async def test_another_repository_has_its_own_rules(glob: Call, write: Write) -> None:
    """What the outer repository ignores does not count inside another one."""
    write({".git/HEAD": "", ".gitignore": "*.log\n", "a.log": "", "sub/.git/HEAD": "", "sub/b.log": ""})
    assert paths(await glob("**/*.log")) == ["sub/b.log"]


async def test_links_are_not_listed(glob: Call, write: Write, project: Path, tmp_path: Path) -> None:
    """Links, pipes and what is behind links are left out."""
    write({"a": ""})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b").touch()
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "dead").symlink_to("nowhere")
    os.mkfifo(project / "pipe")
    assert paths(await glob("**", type="any")) == ["a"]
    assert paths(await glob("link/*")) == []


async def test_absolute_patterns(glob: Call, write: Write, project: Path) -> None:
    """A pattern with a folder in front is for that folder, also when it goes up first."""
    write({"src/a.py": "", "lib/b.py": ""})
    assert paths(await glob(f"{project}/src/*.py")) == ["src/a.py"]
    assert paths(await glob("../lib/*.py", path="src")) == ["lib/b.py"]
    assert paths(await glob(f"{project}/src/a.py")) == ["src/a.py"]


async def test_outside_of_the_working_directory(glob: Call, tmp_path: Path, project: Path) -> None:
    """Paths outside are absolute."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "a").touch()
    assert paths(await glob("*", path=str(outside))) == [str(outside / "a")]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"pattern": ""}, "invalid_input"),
        ({"pattern": "*/../../x"}, "invalid_pattern"),
        ({"pattern": "{a"}, "invalid_pattern"),
        ({"pattern": "*", "type": "link"}, "invalid_input"),
        ({"pattern": "*", "exclude": 3}, "invalid_input"),
        ({"pattern": "*", "exclude": ["[a"]}, "invalid_pattern"),
        ({"pattern": "*", "path": "none"}, "not_found"),
        ({"pattern": "*", "path": "file"}, "not_a_folder"),
    ],
)
async def test_what_makes_no_sense(glob: Call, write: Write, given: dict[str, Any], code: str) -> None:
    """Wrong input is a failure with a code."""
    write({"file": ""})
    result = await glob(**given)
    assert not result.success
    assert result.error is not None
    assert result.error["code"] == code


async def test_names_that_are_not_utf8(glob: Call, write: Write) -> None:
    """A name with bytes that are no UTF-8 is shown with its bytes."""
    write({"\udcff.txt": ""})
    result = await glob("?.txt")
    assert paths(result) == [r"\xff.txt"]
    result.model_dump_json()
