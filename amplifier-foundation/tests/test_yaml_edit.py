"""Changing one value in the text of a YAML file."""

from __future__ import annotations

import copy
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_foundation.yaml_edit import CannotEdit, set_in, unset_in

TEXT = dedent("""\
    # top

    bundle:
      active: foo  # the best

    # about config
    config:
      providers:
        - module: a   # first
          config: { x: 1,  y: null }
        # second
        - module: b
      text: |
        many
        lines

      empty:
    # end
    """)


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("bundle", "active"), "bar", "active: foo  #", "active: bar  #"),
        (("bundle", "active"), "yes", "active: foo  #", "active: 'yes'  #"),
        (("bundle", "active"), "a: b # c", "active: foo  #", "active: 'a: b # c'  #"),
        (("bundle", "active"), "two\nlines", "active: foo  #", 'active: "two\\nlines"  #'),
        (("bundle", "active"), "grün", "active: foo  #", "active: grün  #"),
        (("bundle", "active"), ["a"], "active: foo  # the best\n", "active:  # the best\n    - a\n"),
        (("bundle", "app"), ["a"], "# the best\n", "# the best\n  app:\n    - a\n"),
        (("config", "providers", 0, "config", "x"), 2, "{ x: 1,  y: null }", "{x: 2, y: null}"),
        (("config", "providers", 0, "config", "z"), {"a": []}, "{ x: 1,  y: null }", "{x: 1, y: null, z: {a: []}}"),
        (("config", "providers", 1, "config", "x"), 2, "module: b\n", "module: b\n      config:\n        x: 2\n"),
        (("config", "providers", 2), {"module": "c"}, "module: b\n", "module: b\n    - module: c\n"),
        (("config", "providers", 1), {"module": "c", "id": "d"}, "module: b\n", "module: c\n      id: d\n"),
        (("config", "text"), "short", "text: |\n    many\n    lines\n", "text: short\n"),
        (("config", "empty"), 1, "empty:\n", "empty: 1\n"),
        (("config", "empty", "x"), 1, "empty:\n", "empty:\n    x: 1\n"),
        (("config", "more"), {"a": 1}, "empty:\n", "empty:\n  more:\n    a: 1\n"),
        (("bundle",), "text", "bundle:\n  active: foo  # the best\n", "bundle: text\n"),
        (("bundle",), {"app": ["x"]}, "  active: foo  # the best\n", "  app:\n    - x\n"),
        (("new",), {}, "empty:\n", "empty:\nnew: {}\n"),
    ],
)
def test_only_what_is_set_changes(path: tuple[str | int, ...], value: Any, old: str, new: str) -> None:
    """The rest of the text is the same to the last character."""
    assert TEXT.count(old) == 1
    changed = set_in(TEXT, path, value)
    assert changed == TEXT.replace(old, new)
    found: Any = yaml.safe_load(changed)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("path", "old"),
    [
        (("config", "providers", 1), "    - module: b\n"),
        (("config", "providers", 0), "    - module: a   # first\n      config: { x: 1,  y: null }\n"),
        (("config", "providers", 0, "config"), "      config: { x: 1,  y: null }\n"),
        (("config", "text"), "  text: |\n    many\n    lines\n"),
        (("config", "empty"), "  empty:\n"),
        (("bundle", "active"), "bundle:\n  active: foo  # the best\n"),
    ],
)
def test_only_what_is_unset_goes(path: tuple[str | int, ...], old: str) -> None:
    """The lines of the entry go, with the mapping around them when it is empty; every other comment stays."""
    assert TEXT.count(old) == 1
    assert unset_in(TEXT, path) == TEXT.replace(old, "")


def test_a_comment_keeps_the_empty_mapping_around_it() -> None:
    """A section is not taken away when that would take a comment away that stands above the entry."""
    assert unset_in("a:\n  # why\n  b: 1\nc: 2\n", ("a", "b")) == "a:\n  # why\nc: 2\n"


def test_the_first_key_of_an_item_can_go() -> None:
    """An item of a list stands beside its dash, and the next key moves there."""
    assert unset_in("a:\n- b: 1\n  c: 2\n", ("a", 0, "b")) == "a:\n- c: 2\n"


@pytest.mark.parametrize("text", ["", "# only\n# comments\n", "# no line end"])
def test_a_file_without_keys_gets_its_first(text: str) -> None:
    """Comments that stand alone stay above."""
    changed = set_in(text, ("bundle", "active"), "x")
    assert changed.startswith(text)
    assert yaml.safe_load(changed) == {"bundle": {"active": "x"}}


@pytest.mark.parametrize("text", ["{}", "{bundle: {}}\n", "bundle: {}  # c\n", "bundle: ~\n", "---\nbundle:\n"])
def test_empty_mappings_are_filled(text: str) -> None:
    """However nothing is written, something can be put there."""
    assert yaml.safe_load(set_in(text, ("bundle", "active"), "x")) == {"bundle": {"active": "x"}}


def test_an_entry_after_an_alias_stands_after_it() -> None:
    """A value that refers to another place of the file does not lead there."""
    changed = set_in("a: &x {k: 1}\nb:\n  c: *x  # c\nd: 1\n", ("b", "e"), 2)
    assert changed == "a: &x {k: 1}\nb:\n  c: *x  # c\n  e: 2\nd: 1\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: text\n", ("a", "b")),
        ("a: [1]\n", ("a", "b")),
        ("a:\n  b: 1\n", ("a", 0)),
        ("a: &x\n  k: 1\nb: *x\n", ("b",)),
        ("a:\n- 1\n", ("a", 5)),
    ],
)
def test_what_cannot_be_done_is_not_done(text: str, path: tuple[str | int, ...]) -> None:
    """An invalid place, or a value that is written elsewhere, is refused."""
    with pytest.raises((CannotEdit, TypeError)):
        set_in(text, path, 1)


KEYS = st.sampled_from(["a", "b", "c d", "yes", "ü", "1"])
SCALARS = st.sampled_from(
    [None, True, 1, 2.5, "x", "no", "a: b", "# c", "", " s ", "two\nlines", "ü🎉", "${VAR}", "'\""]
)
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
FILES = st.dictionaries(KEYS, DATA, min_size=1, max_size=4)


def commented(data: dict[str, Any]) -> tuple[str, list[str]]:
    """Return YAML with a comment above every line that starts an entry."""
    lines: list[str] = []
    for number, line in enumerate(yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=1000).splitlines()):
        if ":" in line and line.lstrip()[:1] not in ("'", '"', "-", ""):
            lines.append(f"# comment {number}.")
        lines.append(line)
    return "\n".join(lines) + "\n# last.\n", [line for line in lines if line.startswith("# comment ")]


@given(FILES, KEYS, KEYS, DATA)
def test_setting_reads_back_and_keeps_every_comment(data: dict[str, Any], first: str, second: str, value: Any) -> None:
    """Whatever the file and the value: it reads as asked, and comments outside of what was replaced are there."""
    text, comments = commented(data)
    assume(yaml.safe_load(text) == data)  # no comment came to stand inside of a text
    path = (first, second) if isinstance(data.get(first), dict) else (first,)
    wanted = copy.deepcopy(data)
    target = wanted[first] if len(path) == 2 else wanted
    is_new = path[-1] not in target
    target[path[-1]] = value
    changed = set_in(text, path, value)
    assert yaml.safe_load(changed) == wanted
    assert changed.endswith("# last.\n")
    if is_new:
        assert [line for line in changed.splitlines() if line.startswith("# comment ")] == comments


@given(FILES, st.data())
def test_unsetting_takes_one_entry_and_no_other_comment(data: dict[str, Any], draw: st.DataObject) -> None:
    """Whatever the file: it reads as without the entry, and comments above other entries are there."""
    text, _ = commented(data)
    assume(yaml.safe_load(text) == data)
    key = draw.draw(st.sampled_from(sorted(data)))
    changed = unset_in(text, (key,))
    assert (yaml.safe_load(changed) or {}) == {name: value for name, value in data.items() if name != key}
    assert changed.endswith("# last.\n")
