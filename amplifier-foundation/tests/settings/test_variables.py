"""Variables in texts of settings and plans."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.settings.variables import VARIABLE, MissingVariable, expand

ENVIRON = {"SET": "value", "EMPTY": "", "SLY": "${SET} $${SET}", "A1_": "x"}
_PIECES = st.sampled_from(["$", "$$", "${", "}", "${SET}", "${UNSET}", "${SLY}", "${SET:d}", "{", ":", "a", "ü", "\n"])
TEXTS = st.lists(_PIECES, max_size=8).map("".join)


def test_variables_are_put_in_place_in_all_texts() -> None:
    """Texts in mappings and lists of any depth are expanded, other values and keys stay."""
    data = {"a": ["${SET}/x", {"${SET}": "${A1_}${SET:no}"}], "n": 1, "b": True, "none": None}
    assert expand(data, ENVIRON).value == {
        "a": ["value/x", {"${SET}": "xvalue"}],
        "n": 1,
        "b": True,
        "none": None,
    }


def test_a_default_stands_in_for_a_variable_that_is_not_set() -> None:
    """`${VAR:default}` is its default only when the variable is not set; a set but empty one is empty."""
    expanded = expand(["${UNSET:a:b c}", "${UNSET:}", "${EMPTY:x}"], ENVIRON)
    assert expanded == (["a:b c", "", ""], [])


def test_a_variable_that_is_not_set_is_empty_and_reported() -> None:
    """What is missing is named with the dotted key of the text, modules by their name."""
    plan = {"providers": [{"module": "provider-x", "config": {"api_key": "${NO_KEY}", "urls": ["${NO_URL}/v1"]}}]}
    expanded = expand(plan, ENVIRON)
    assert expanded.value["providers"][0]["config"] == {"api_key": "", "urls": ["/v1"]}
    assert expanded.missing == [
        MissingVariable("NO_KEY", "providers.provider-x.config.api_key"),
        MissingVariable("NO_URL", "providers.provider-x.config.urls.0"),
    ]


def test_two_dollars_make_a_literal() -> None:
    """`$${VAR}` is how `${VAR}` itself is written."""
    assert expand("a $${SET} $${UNSET:x} $$", ENVIRON) == ("a ${SET} ${UNSET:x} $$", [])


def test_what_is_no_name_of_a_variable_stays() -> None:
    """Shell code and other uses of the dollar sign are left alone."""
    text = "$SET ${} ${1} ${a-b} ${SET"
    assert expand(text, ENVIRON) == (text, [])


@given(TEXTS)
def test_what_was_expanded_is_not_expanded_again(text: str) -> None:
    """The outcome is each part in turn replaced once: what a variable holds is never looked into."""
    whole, at = "", 0
    for match in re.finditer(VARIABLE, text):
        value = ENVIRON.get(match["name"], match["default"] or "")
        whole += text[at : match.start()] + (match.group()[1:] if match["escape"] else value)
        at = match.end()
    assert expand(text, ENVIRON).value == whole + text[at:]


@given(TEXTS)
def test_any_text_can_be_written_so_that_it_stays(text: str) -> None:
    """One more dollar before every variable gives the very text back, whatever is in it."""
    escaped = re.sub(VARIABLE, lambda match: "$" + match.group(), text)
    assert expand(escaped, ENVIRON) == (text, [])


@given(st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_expansion_makes_a_copy(data: Any) -> None:
    """What is expanded is not changed, and data without variables comes back equal."""
    before = repr(data)
    expanded = expand(data, ENVIRON)
    assert repr(data) == before
    assert "${" in before or expanded == (data, [])
