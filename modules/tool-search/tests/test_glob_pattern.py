"""Glob patterns mean what they say, and never take long."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_search.glob_pattern import Glob, GlobError, expand_braces


def matches(pattern: str, path: str, *, any_depth: bool = False) -> bool:
    return Glob.parse(pattern, any_depth=any_depth).matches(path)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("*.py", ["a.py", ".py", ".a.py", "a\nb.py"], ["a.pyc", "src/a.py", "py"]),
        ("**/*.py", ["a.py", "src/a.py", "a/b/c.py"], ["a/b", "a.py/b"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]),
        ("src/**/test_*", ["src/test_a", "src/x/y/test_b"], ["src/x/test", "test_a"]),
        ("**", ["a", "a/b"], []),
        ("a?c", ["abc", "aéc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[]]x", ["]x"], ["x"]),
        ("*.{py,js}", ["a.py", "b.js"], ["c.rs", "a.{py,js}"]),
        ("{a,b/{c,d}}", ["a", "b/c", "b/d"], ["b", "c"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"\{a,b\}", ["{a,b}"], ["a"]),
        ("a.b", ["a.b"], ["aXb"]),
        ("./src/a", ["src/a"], ["a"]),
        ("src/", ["src/a"], ["src"]),
        ("**/a/**/b", ["a/b", "x/a/y/b", "a/a/b"], ["a", "b", "ab"]),
        ("*a*b*", ["ab", "xaybz"], ["ba", "a/b"]),
    ],
)
def test_patterns(pattern: str, fitting: list[str], other: list[str]) -> None:
    """Stars and question marks stay within a name, ** crosses folders, braces are alternatives."""
    assert [path for path in fitting if not matches(pattern, path)] == []
    assert [path for path in other if matches(pattern, path)] == []


def test_any_depth() -> None:
    """A pattern for names, without a slash, fits in every folder; one with a slash begins at the top."""
    assert matches("*.py", "src/a.py", any_depth=True)
    assert matches("*.py", "a.py", any_depth=True)
    assert not matches("src/*.py", "x/src/a.py", any_depth=True)
    assert not matches("/a.py", "src/a.py", any_depth=True)


@pytest.mark.parametrize(
    "pattern", ["", "/", "[a", "{a", "a\\", "../a", "a/../b", "[z-a]", "a\0", "a\nb", "{a,b}" * 7, "x" * 5000]
)
def test_what_is_no_pattern(pattern: str) -> None:
    """What means nothing, leaves its base or multiplies beyond measure is refused."""
    with pytest.raises(GlobError):
        Glob.parse(pattern)


@given(st.lists(st.sampled_from(["*", "?", "**", "a", "b*", "*a", "[ab]", "a?b", "*a*b*"]), min_size=1, max_size=4))
def test_same_as_the_standard_library(names: list[str]) -> None:
    """Every path is matched or not as Path.glob would, for patterns that both understand."""
    pattern = "/".join(names)
    paths = ["a", "b", "ab", "ba", "aab", "a/b", "ab/a", "b/ab", "a/b/a", "b/ba/ab", "a/a/a/b", "ba/b/a/ab"]
    tree = {path for leaf in paths for path in (leaf, *map(str, list(Path(leaf).parents)[:-1]))}
    assert {path for path in tree if matches(pattern, path)} == {path for path in tree if reference(names, path)}


def reference(names: list[str], path: str) -> bool:
    """Match by trying everything."""
    if not names:
        return not path
    if names[0] == "**":
        if len(names) == 1:
            return bool(path)
        rest = path
        while True:
            if reference(names[1:], rest):
                return True
            if "/" not in rest:
                return False
            rest = rest.partition("/")[2]
    name, _, rest = path.partition("/")
    return bool(name) and Path(name).match(names[0]) and reference(names[1:], rest)


@given(st.text(alphabet="ab{},\\[]", max_size=12))
def test_braces_never_break(pattern: str) -> None:
    """Whatever the braces, there are patterns without them, or an error of its own kind."""
    try:
        assert expand_braces(pattern)
    except GlobError:
        pass


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "**/a/" * 30 + "b", "*?" * 30 + "b", "**/*a*/" * 15 + "b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Many wildcards on a long name are answered; backtracking would run into the timeout of every test."""
    assert not matches(pattern, "a" * 250)
    assert not matches(pattern, "a/" * 120 + "a")


@pytest.mark.parametrize(
    ("pattern", "names", "folders"),
    [
        ("src/**/*.py", ("*.py",), ("src",)),
        ("**/x", ("x",), None),
        ("a/b/c", ("c",), ("a",)),
        ("*.py", ("*.py",), ()),
        ("src/**", (), ("src",)),
        ("{src,lib}/*.{py,js}", ("*.py", "*.js"), ("src", "lib")),
        ("s\u00e4?/[ab]", (), ("s*",)),
    ],
)
def test_what_an_engine_can_select(pattern: str, names: tuple[str, ...], folders: tuple[str, ...] | None) -> None:
    """Names and first folders are narrowed to what may match, in a form that means the same everywhere."""
    glob = Glob.parse(pattern)
    assert (glob.names, glob.folders) == (names, folders)
