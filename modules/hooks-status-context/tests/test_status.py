"""How `git status` is read and what of it is listed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.status import (
    TIER1,
    TIER2,
    Change,
    Status,
    matches,
    parse_status,
    status_lines,
)

NAMES = st.sampled_from(["a.py", "b.md", "poetry.lock", "debug.log", "x.pyc", ".DS_Store", "source"])
FOLDERS = st.sampled_from(["src", "docs", "node_modules", "build", ".idea", "__pycache__"])
PATHS = st.builds(lambda folders, name: "/".join([*folders, name]), st.lists(FOLDERS, max_size=3), NAMES)
CHANGES = st.builds(Change, st.sampled_from([" M", "A ", "MM", "UU", "??"]), PATHS)
LIMITS = st.none() | st.integers(0, 30)


def test_every_kind_of_line() -> None:
    """Headers, changed, renamed, unmerged and untracked entries are read; others are skipped."""
    fields = "N... 100644 100644 100644 aaaa bbbb"
    output = "\0".join(
        [
            "# branch.oid 0123456789abcdef",
            "# branch.head main",
            "# branch.upstream origin/main",
            "# branch.ab +12 -3",
            "# something new",
            f"1 .M {fields} a file",
            f"2 R. {fields} R100 to here",
            "from there",
            "u UU N... 100644 100644 100644 100644 aaaa bbbb cccc torn",
            "? new file",
            "! ignored",
            "9 future",
            "1 too short",
            "",
        ]
    )
    assert parse_status(output.encode()) == Status(
        commit="0123456789abcdef",
        upstream="origin/main",
        ahead=12,
        behind=3,
        changes=[
            Change(" M", "a file"),
            Change("R ", "to here", "from there"),
            Change("UU", "torn"),
            Change("??", "new file"),
        ],
    )


def test_output_that_was_cut_loses_its_last_entry() -> None:
    """Half an entry is none; the heading says that there may be more."""
    status = parse_status(b"? first\0? second\0? thi", is_cut=True)
    assert [change.path for change in status.changes] == ["first", "second"]
    assert status_lines(status, StatusConfig())[0] == "Git status (at least 2 untracked):"


@given(
    st.binary()
    | st.lists(st.sampled_from([b"# branch.ab ", b"1 ", b"2 ", b"u ", b"? ", b"\0", b"x", b" "])).map(b"".join)
)
def test_no_output_is_too_strange(output: bytes) -> None:
    """Whatever git writes, it is read without an error and shown on printable lines."""
    for is_cut in (False, True):
        lines = status_lines(parse_status(output, is_cut=is_cut), StatusConfig())
        assert all(line.isprintable() for line in lines)


@given(
    st.lists(CHANGES, max_size=80),
    LIMITS,
    LIMITS,
    LIMITS,
    LIMITS,
    st.booleans(),
)
def test_limits_hold_together(
    changes: list[Change],
    most: int | None,
    tracked: int | None,
    untracked: int | None,
    minor: int | None,
    filtering: bool,
) -> None:
    """No limit is ever exceeded, nothing hidden is listed, and listed and unlisted make up the whole."""
    settings = StatusConfig(
        git_status_max_lines=most,
        git_status_max_tracked=tracked,
        git_status_max_untracked=untracked,
        git_status_tier2_limit=minor,
        git_status_enable_path_filtering=filtering,
    )
    lines = status_lines(Status(changes=changes), settings)
    if not changes:
        assert lines == ["Git status: clean"]
        return
    rest = re.fullmatch(r"\((\d+) more not listed.*\)", lines[-1])
    listed = [Change(line[:2], line[3:]) for line in (lines[1:-1] if rest else lines[1:])]
    assert len(listed) + (int(rest[1]) if rest else 0) == len(changes)
    assert _within(listed, most)
    assert _within([change for change in listed if not change.is_untracked], tracked)
    assert _within([change for change in listed if change.is_untracked], untracked)
    if filtering:
        assert not [change for change in listed if matches(change.path, TIER1)]
        assert _within([change for change in listed if matches(change.path, TIER2)], minor)


def _within(listed: list[Change], limit: int | None) -> bool:
    return limit is None or len(listed) <= limit


def test_what_people_write_comes_before_what_tools_make() -> None:
    """Within the limit lock files and the like give way to everything else."""
    changes = [Change(" M", name) for name in ("a.lock", "b.lock", "c.py", "d.py")]
    settings = StatusConfig(git_status_max_tracked=3)
    assert status_lines(Status(changes=changes), settings)[1:] == [
        " M c.py",
        " M d.py",
        " M a.lock",
        "(1 more not listed)",
    ]


def test_the_limit_for_what_tools_make_holds_for_all() -> None:
    """Tracked and untracked files share it."""
    changes = [Change(code, f"{name}.lock") for code in (" M", "??") for name in ("a", "b")]
    lines = status_lines(Status(changes=changes), StatusConfig(git_status_tier2_limit=3))
    assert lines[1:] == [" M a.lock", " M b.lock", "?? a.lock", "(1 more not listed)"]


def test_patterns_of_the_bundle_are_added() -> None:
    """`git_status_tier1_patterns_extend` hides more, `git_status_tier2_patterns_extend` limits more."""
    changes = [Change("??", name) for name in ("generated/x", "a.csv", "b.csv", "c.py", "poetry.lock")]
    settings = StatusConfig(
        git_status_tier1_patterns_extend=("generated/",),
        git_status_tier2_patterns_extend=("*.csv",),
        git_status_tier2_limit=2,
    )
    assert status_lines(Status(changes=changes), settings)[1:] == [
        "?? c.py",
        "?? a.csv",
        "?? b.csv",
        "(2 more not listed, 1 of them made by tools)",
    ]


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("node_modules/", "node_modules/", True),
        ("a/node_modules/b/c.js", "node_modules/", True),
        ("node_modules", "node_modules/", False),
        ("my_node_modules/x", "node_modules/", False),
        ("a/b.lock", "*.lock", True),
        ("b.lock/c", "*.lock", False),
        ("docs/api/x.md", "docs/api/*", True),
        ("docs/api/x.md", "docs/api/", True),
        ("old/docs/api/x.md", "docs/api/", False),
        ("A.LOCK", "*.lock", False),
    ],
)
def test_patterns(path: str, pattern: str, expected: bool) -> None:
    """A folder matches at any depth, a path from the top, a name anywhere; never a part of a name."""
    assert matches(path, [pattern]) is expected


@pytest.mark.parametrize("limits", [{"git_status_max_lines": 0}, {"git_status_max_untracked": 0}])
def test_a_limit_of_zero_lists_nothing(limits: dict[str, Any]) -> None:
    """The heading and the count of the rest remain."""
    lines = status_lines(Status(changes=[Change("??", "a"), Change("??", "b")]), StatusConfig(**limits))
    assert lines == ["Git status (2 untracked):", "(2 more not listed)"]
