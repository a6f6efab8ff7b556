"""Lines are found exactly, or with differences in white space that can be told and made up for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.files.text import LineMatch, find_lines, nearest_line

LINES = st.lists(st.sampled_from(["a", "b", "", "  a", "a  ", "\ta", "    b"]), max_size=8)


@given(have=LINES, wanted=LINES.filter(bool))
def test_matches_differ_in_white_space_only(have: list[str], wanted: list[str]) -> None:
    """Whatever is found is the same text, and of the closest kind that there is."""
    found = find_lines(have, wanted)
    for match in found:
        there = have[match.first : match.first + len(wanted)]
        assert [line.strip() for line in there] == [line.strip() for line in wanted]
        if match.kind != "indented":
            assert [line.rstrip() for line in there] == [line.rstrip() for line in wanted]
        else:
            assert [match.indent(line).rstrip() for line in wanted] == [line.rstrip() for line in there]
    exact = [at for at in range(len(have) - len(wanted) + 1) if have[at : at + len(wanted)] == wanted]
    if exact:
        assert found == [LineMatch(at, "exact") for at in exact]
    assert len({match.kind for match in found}) <= 1


def test_one_indentation_for_all_lines() -> None:
    """Lines that are indented each in its own way are not the same lines."""
    assert find_lines(["  if x:", "      y"], ["if x:", "    y"]) == [LineMatch(0, "indented", more="  ")]
    assert find_lines(["if x:", "  y"], ["if x:", "    y"]) == []
    assert find_lines(["if x:", "\ty"], ["\tif x:", "\t\ty"]) == [LineMatch(0, "indented", less="\t")]


def test_what_cannot_be_indented_does_not_fit() -> None:
    """New lines that lack the indentation that would be taken away do not fit."""
    match = LineMatch(0, "indented", less="    ")
    assert match.fits(["    a", "", "        b"])
    assert not match.fits(["  a"])
    assert match.indent("        b") == "    b"


def test_the_nearest_lines() -> None:
    """The place where most lines are alike is the nearest; failing that the most similar line, if there is one."""
    have = ["x", "def one():", "    return 1", "", "def two():", "    return 2", "    # end"]
    assert nearest_line(have, ["def two():", "  return 22", "# end"]) == 4
    assert nearest_line(have, ["def tow():"]) == 4
    assert nearest_line(have, ["something else entirely, quite unlike"]) is None
    assert nearest_line([], ["a"]) is None
    assert nearest_line(have, ["", "  "]) is None
