"""Hunks go where they belong, or nowhere; what they do not mention stays byte by byte."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import decode
from amplifier_module_tool_apply_patch.patch import parse_diff, patched


def _applied(text: str, *diff: str) -> str:
    return patched(decode(text.encode(), "f"), "f", parse_diff("update_file", "f", "\n".join(diff)).hunks).text


def _refused(text: str, *diff: str) -> str:
    with pytest.raises(FileError) as caught:
        _applied(text, *diff)
    return caught.value.code


def test_several_hunks_in_order() -> None:
    """Each hunk is looked for after the one before it."""
    assert _applied("a\nb\nc\na\nb\n", "@@", " c", " a", "-b", "+B") == "a\nb\nc\na\nB\n"
    assert _applied("a\nb\nc\nd\n", "-a", "+A", "@@", "-d", "+D") == "A\nb\nc\nD\n"
    assert _refused("a\nb\n", "-b", "+B", "@@", "-a", "+A") == "context_mismatch"


def test_two_places_are_ambiguous() -> None:
    """Lines that stand twice in the file are not enough; an anchor is."""
    text = "def f():\n    return 1\ndef g():\n    return 1\n"
    assert _refused(text, "@@", "-    return 1", "+    return 2") == "ambiguous_context"
    assert _applied(text, "@@ def g():", "-    return 1", "+    return 2") == text[:-2] + "2\n"
    assert _applied(text, "@@ def f():", "-    return 1", "+    return 2") == text.replace("1", "2", 1)


def test_anchors_one_after_the_other() -> None:
    """Several anchors narrow the place step by step; they may be indented otherwise, or be the first line again."""
    text = "class A:\n    def f(self):\n        x\nclass B:\n    def f(self):\n        x\n"
    expected = text[:-2] + "y\n"
    assert _applied(text, "@@ class B:", "@@ def f(self):", "-        x", "+        y") == expected
    assert _applied(text, "@@ class B:", " class B:", "     def f(self):", "-        x", "+        y") == expected
    assert _refused(text, "@@ class C:", "-        x", "+        y") == "context_mismatch"


def test_lines_that_are_only_added() -> None:
    """Without context, lines go after the anchor, or to the end of the file."""
    assert _applied("a\nb\n", "@@ a", "+new") == "a\nnew\nb\n"
    assert _applied("a\nb\n", "@@", "+new") == "a\nb\nnew\n"
    assert _applied("", "+new") == "new\n"


def test_the_end_of_the_file() -> None:
    """A hunk that says so belongs to the end, where the same lines stand twice."""
    assert _applied("x\ny\nx\n", "@@", "-x", "+z", "*** End of File") == "x\ny\nz\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("end", ["", "x"])
def test_line_ends_are_kept(newline: str, end: str) -> None:
    """New lines end as those of the file do, and the last line has an end if it had one."""
    old = newline.join(["a", "b", "c", end])
    new = newline.join(["a", "B", "B2", "c", end])
    assert _applied(old, " a", "-b", "+B", "+B2", " c") == new
    last = "c" if not end else "x"
    ending = newline if not end else ""
    assert _applied(old, f" {last}", "+d").endswith(f"{last}{newline}d{ending}")


def test_mixed_line_ends_stay() -> None:
    """Lines that a hunk does not remove keep the ends they have."""
    assert _applied("a\r\nb\nc\r\n", " a", "-b", "+B", " c") == "a\r\nB\r\nc\r\n"
    assert _applied("a\nb\r\nc\n", "@@", " b", "-c") == "a\nb\r\n"


@pytest.mark.parametrize("text", ["a\nb\r", "a\r\nb\r", "a\nb\r\r", "a\r\nb", "a\n\r"])
def test_a_carriage_return_at_the_very_end_stays(text: str) -> None:
    """A last line without a line feed keeps its carriage returns: they end no line."""
    assert _applied(text, "@@", "-a", "+A") == text.replace("a", "A")


def test_line_numbers_alone_are_no_place() -> None:
    """Lines that a unified diff adds without context are refused, not put elsewhere; an empty file has one place."""
    for header in ("@@ -2,0 +3 @@", "@@ -0,0 +1 @@ def f():"):
        assert _refused("a\nb\nc\n", header, "+new") == "context_mismatch"
    assert _applied("", "@@ -0,0 +1 @@", "+new") == "new\n"
    assert _applied("a\nb\nc\n", "@@ -2 +2 @@", "-b", "+B") == "a\nB\nc\n"


def test_the_mark_of_git_for_no_line_end() -> None:
    """A diff can take the last line end away, and give it."""
    assert _applied("a\nb\n", " a", "-b", "+B", "\\ No newline at end of file") == "a\nB"
    assert _applied("a\nb", " a", "-b", "\\ No newline at end of file", "+B") == "a\nB\n"


def test_white_space_that_can_be_told() -> None:
    """Other white space at line ends, or a common indentation, is made up for where one place fits; context stays."""
    source = decode(b"if x:  \n    a\n    b\n", "f")
    hunks = parse_diff("update_file", "f", " if x:\n-    a\n+    A").hunks
    result = patched(source, "f", hunks)
    assert result.text == "if x:  \n    A\n    b\n"
    assert "Lines 1 to 2 of f were taken, which differ in white space at line ends." in result.notes
    assert _applied("class A:\n    def f():\n        x\n", " def f():", "-    x", "+    y") == (
        "class A:\n    def f():\n        y\n"
    )
    assert _refused("  x\n    x\n", "-x", "+y") == "ambiguous_context"
    assert _refused("if x:\n  a\n", " if x:", "-    a", "+    b") == "context_mismatch"


WORDS = st.lists(st.sampled_from(["a", "b", "c", "", " d", "+e", "-f", "@@ g", "*** h"]), max_size=10)


@given(old=WORDS, new=WORDS, newline=st.sampled_from(["\n", "\r\n"]))
def test_a_diff_of_two_texts_makes_one_the_other(old: list[str], new: list[str], newline: str) -> None:
    """A patch with the whole file as context turns any text into any other, whatever its lines look like."""
    assume(old)
    diff = ["@@"]
    for kind, first, last, begin, end in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if kind == "equal":
            diff += [f" {line}" for line in old[first:last]]
            continue
        diff += [f"-{line}" for line in old[first:last]]
        diff += [f"+{line}" for line in new[begin:end]]
    text = "".join(line + newline for line in old)
    assert _applied(text, *diff) == "".join(line + newline for line in new)


def test_empty_lines_between_hunks() -> None:
    """An empty line is context inside a hunk, and air at its end."""
    assert _applied("a\n\nb\nc\n", "@@", "-a", "+A", "", "-b", "+B", "", "@@", "-c", "+C") == "A\n\nB\nC\n"
