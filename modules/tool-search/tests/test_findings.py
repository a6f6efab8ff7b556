"""What the searching process writes, read in pieces."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_search.findings import (
    Findings,
    FoundCounts,
    FoundFiles,
    FoundLines,
    count_entries,
    entries,
)

STATS = b"\n3 matches\n2 files contained matches\n41 files searched\n0 bytes printed\n0.1 seconds\n"

#: Names that look like what stands between them, and names of any other kind.
part = st.sampled_from(["a", "\n", "\n\n", "./", ": ", "1:", "2-", "é", "--"])
names = st.lists(part, min_size=1, max_size=8).map(lambda parts: "".join(parts)).filter(lambda name: name[0] != "\n")
texts = st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), max_size=12)
lines = st.lists(st.tuples(st.integers(1, 10**6), st.booleans(), texts), min_size=1, max_size=4)
files = st.dictionaries(names, st.tuples(lines, st.booleans()), max_size=5)


def written(path: str, found: list[tuple[int, bool, str]], is_binary: bool) -> bytes:
    """Return what is written of one file."""
    name = f"./{path}".encode()
    said = b"".join(
        b"%d%c%b\n" % (number, b":" if is_match else b"-", text.encode()) for number, is_match, text in found
    )
    end = name + b": WARNING: stopped searching binary file after match\n" if is_binary else b""
    return name + b"\0" + said + end


def read(found: Findings, data: bytes, cuts: list[int]) -> None:
    """Hand data over in pieces."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        found.take(data[start:end])


@given(files, st.booleans(), st.lists(st.integers(0, 10_000), max_size=6))
def test_lines_are_read_however_they_are_cut(files: dict[str, Any], has_stats: bool, cuts: list[int]) -> None:
    """Lines belong to the file they were found in, whatever names look like; binary files are left out."""
    data = b"\n".join(written(path, *about) for path, about in files.items()) + (STATS if has_stats else b"")
    found = FoundLines(None)
    read(found, data, cuts)
    assert found.searched() == (41 if has_stats else None)
    found.close()
    expected = {path: about[0] for path, about in files.items() if not about[1]}
    assert {path: [tuple(entry) for entry in entries(said)] for path, said in found.files.items()} == {
        path: [(number, text, is_match) for number, is_match, text in said] for path, said in expected.items()
    }
    for path, said in found.files.items():
        matching = [is_match for _, is_match, _ in expected[path]]
        assert count_entries(said, has_context=True) == (len(matching), sum(matching))
    assert found.has_binary is any(is_binary for _, is_binary in files.values())


@given(st.lists(names, unique=True, max_size=5), st.lists(st.integers(0, 10_000), max_size=6))
def test_paths_and_counts_are_read_however_they_are_cut(paths: list[str], cuts: list[int]) -> None:
    """Statistics behind the names are no name, and tell how many files were searched."""
    kinds: list[tuple[Callable[..., Findings], bytes]] = [(FoundFiles, b""), (FoundCounts, b"7\n")]
    for kind, behind in kinds:
        found = kind(None)
        read(found, b"".join(f"./{path}".encode() + b"\0" + behind for path in paths) + STATS, cuts)
        assert (set(found.files), found.searched()) == (set(paths), 41)


def test_a_line_that_was_cut_off_is_left_out() -> None:
    """Of a search that was stopped there are whole lines only."""
    for end, expected in (
        (b"", {"a": b"1:one\n"}),
        (b"2:tw", {"a": b"1:one\n"}),
        (b"2:two\n", {"a": b"1:one\n2:two\n"}),
    ):
        found = FoundLines(None)
        found.take(b"./a\0" + b"1:one\n" + end)
        found.close()
        assert found.files == expected
    found = FoundLines(None)
    found.take(b"./a\0" + b"1:on")
    found.close()
    assert (found.files, found.has_binary) == ({}, False)
