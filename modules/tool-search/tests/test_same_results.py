"""Both engines find the same, whatever the tree, the rules and the question."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule
from amplifier_module_tool_search import mount

pytestmark = pytest.mark.usefixtures("ripgrep")

NAMES = (
    "a",
    "b.py",
    "c.pyi",
    "d.js",
    "e.log",
    "build",
    "node_modules",
    ".env",
    "é.txt",
    "\udcff.txt",
    "x y",
    "Makefile",
)
FOLDERS = ("src", "lib", "build", "node_modules", ".hid", "ä", "x y", "deep")
LINES = (
    "foo",
    "Foo bar",
    "foofoo",
    "",
    "bar é baz",
    "a.b",
    "42 is 7",
    "\tfoo",
    "end$",
    "ÉTÉ",
    "foo\r",
    "\r",
)
PATTERNS = (
    *(
        "foo",
        "^foo",
        "foo$",
        "FOO",
        r"\bfoo\b",
        r"\d+",
        "fo+",
        "(foo|bar)",
        "[a-c]",
        "^$",
        "é",
        r"\w+ \w+",
        r"a\.b",
        "x*",
    ),
    *(r"o[^x] ", r"^\S", r"foo\W", r"\D\Db", "[^\\w ]", "foo.", "[]o]", r"[^\]f]o{2}"),
    *(r"^\s", "ba[rz]", "é.", "end\\$", ".", "(?i)foo", "o{2}", "x.y", "^.{3}$", r"\S$", "zzz"),
)
SPANNING = ("foo\nFoo", r"foo\s+bar", "foo.*bar", r"a\.b\n", "^foo$", r"\n\n", "(?s)F.o", "bar", "x*", "é.*\n")
RULES = (
    *("*.log", "build/", "/src", "src/*.py", "!b.py", "**/a", "lib/**", "!lib/a", "*", "!*/", "!*.py", "# note", ""),
    *(
        "[a-c]*",
        "?.js",
        "é*",
        "??.txt",
        "x\\ y",
        "x y  ",
        "deep/**/a",
        "/lib/src/",
        "!build/",
        "\\!a",
        "[a",
        "*.p*",
    ),
    *(
        "{a",
        "src/",
        "!src",
        "/*",
        "!/src/",
        "lib/a",
        "**",
        "**/",
        "deep",
        "a/",
        "!a",
        ".*",
        "!.gitignore",
        "*/build",
        "**/src/a",
    ),
)
GLOBS = (
    *(
        "*.py",
        "*.{py,js}",
        "src/**",
        "**/a",
        "!*.py",
        "?.js",
        "src/*.py",
        "[a-c]*",
        "lib/**/*.py",
        "/src/",
        "é*",
        "**/src/*",
    ),
    *("*", "x y", "[!a]*.*", "./src/a", "{src,lib}/**/*.py", "**/deep/**", "*e*", "?.txt", "\\a", "src/*/a"),
)

paths = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(FOLDERS), max_size=3),
    st.sampled_from(NAMES),
)
contents = st.builds(
    lambda lines, end: "\n".join(lines) + end, st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(["", "\n"])
).map(lambda text: text.encode("utf-8", "surrogateescape"))
special = st.sampled_from(
    [b"foo\n\0", b"\xef\xbb\xbffoo\nbar\n", b"\xff\xfef\0o\0o\0\n\0", "foo é\r\nbar\r\n".encode("utf-16"), b"", b"\n"]
)
rule_files = st.dictionaries(
    st.lists(st.sampled_from(FOLDERS), max_size=2).map(lambda folders: "/".join([*folders, ".gitignore"])),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=5).map(lambda rules: "\n".join(rules).encode()),
    max_size=3,
)
trees = st.builds(
    lambda files, rules, git: {**files, **rules, **git},
    st.dictionaries(paths, contents | special, max_size=12),
    rule_files,
    st.sampled_from([{}, {}, {".git/HEAD": b"foo\n"}, {"lib/.git/HEAD": b"foo\n"}, {"src/.git": b"gitdir: foo\n"}]),
)
hiding = st.lists(
    st.sampled_from(
        ["src/**", "**/a", "*.py", "lib", "**/.env", "x y", "deep/*", "**/\u00e4/**", "lib/src/*.py", "**"]
    ),
    min_size=1,
    max_size=3,
)
common = {
    "path": st.sampled_from(["", "", "", "src", "lib/src", "build", "deep"]),
    "include_ignored": st.booleans(),
}
greps = st.fixed_dictionaries(
    {"pattern": st.sampled_from(PATTERNS), "output_mode": st.sampled_from(["files_with_matches", "content", "count"])},
    optional={
        **common,
        "-i": st.booleans(),
        "-A": st.integers(0, 2),
        "-B": st.integers(0, 2),
        "-C": st.integers(0, 2),
        "glob": st.sampled_from(GLOBS),
        "type": st.sampled_from(["python", "js", "txt", "make"]),
        "head_limit": st.integers(0, 4),
        "offset": st.integers(0, 4),
    },
)
spanning = st.fixed_dictionaries(
    {
        "pattern": st.sampled_from(SPANNING),
        "output_mode": st.sampled_from(["content", "count"]),
        "multiline": st.just(True),
    }
)
globs = st.fixed_dictionaries(
    {"pattern": st.sampled_from([pattern for pattern in GLOBS if pattern[0] not in "!/"])},
    optional={**common, "exclude": st.lists(st.sampled_from(["*.py", "src/**", "a"]), max_size=2)},
)


class Both:
    """The tools of both engines over one tree; file times are set, so that there is one order of age."""

    def __init__(self, folder: str, tree: dict[str, bytes], hidden: Sequence[str] = ()) -> None:
        self.folder = folder
        self.rules = [Rule("deny", path=pattern) for pattern in hidden]
        self.sessions: dict[str, MockCoordinator] = {}
        if any("/.git" in name and not name.endswith(".gitignore") for name in tree):
            # Where the folder is in no repository, ripgrep 15 passes over the borders of those inside.
            os.mkdir(os.path.join(folder, ".git"))
        for number, (name, content) in enumerate(tree.items()):
            path = os.path.join(os.fsencode(folder), name.encode("utf-8", "surrogateescape"))
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(os.fsdecode(path)).write_bytes(content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # a name is taken by a file or a folder
            os.utime(path, (number, number % 3))

    async def _session(self, engine: str) -> MockCoordinator:
        coordinator: MockCoordinator = MockCoordinator()
        coordinator.register_capability("session.working_dir", self.folder)
        coordinator.register_policy("test", lambda action, details: "allow")
        coordinator.register_capability("policy.hidden", lambda tool: hidden_paths(self.rules, Path(self.folder), tool))
        await mount(coordinator, {"engine": engine, "glob": {"max_results": 4}})
        return coordinator

    async def ask(self, tool: str, question: dict[str, Any]) -> tuple[Any, Any]:
        """Return what rg and what Python answers."""
        answers = {}
        for engine in ("rg", "python"):
            if engine not in self.sessions:
                self.sessions[engine] = await self._session(engine)
            result = await self.sessions[engine].get("tools", tool).execute(dict(question))
            answers[engine] = result.output if result.success else result.error
        return answers["rg"], answers["python"]


SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(tree=trees, questions=st.lists(greps, min_size=1, max_size=4))
async def test_grep(tree: dict[str, bytes], questions: list[dict[str, Any]]) -> None:
    """grep finds the same files, lines and counts: ignore rules, types, globs, context and paging included."""
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder), tree)
        for question in questions:
            rg, python = await both.ask("grep", question)
            assert rg == python


@SETTINGS
@given(tree=trees, questions=st.lists(spanning, min_size=1, max_size=3))
async def test_matches_that_span_lines(tree: dict[str, bytes], questions: list[dict[str, Any]]) -> None:
    """Matches over several lines give the same lines."""
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder), tree)
        for question in questions:
            rg, python = await both.ask("grep", question)
            assert rg == python


@SETTINGS
@given(tree=trees, questions=st.lists(globs, min_size=1, max_size=4))
async def test_glob(tree: dict[str, bytes], questions: list[dict[str, Any]]) -> None:
    """glob lists the same files in the same order, and as many of them."""
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder), tree)
        for question in questions:
            rg, python = await both.ask("glob", question)
            assert rg == python


@SETTINGS
@given(tree=trees, hidden=hiding, grep=greps, glob=globs)
async def test_what_is_hidden(
    tree: dict[str, bytes], hidden: list[str], grep: dict[str, Any], glob: dict[str, Any]
) -> None:
    """Both leave out the same, and say the same number of it."""
    with tempfile.TemporaryDirectory() as folder:
        both = Both(os.path.realpath(folder), tree, hidden)
        rg, python = await both.ask("grep", grep)
        assert rg == python
        rg, python = await both.ask("glob", glob)
        assert rg == python
