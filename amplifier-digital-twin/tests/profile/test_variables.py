"""Variables of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.profile.places import FaultyError, Reading, Where
from amplifier_digital_twin.profile.variables import references, substitute
from amplifier_foundation.documents import Document

_NAMES = st.sampled_from(["A", "B", "_c9"])
_PIECES = st.sampled_from(["${A}", "${B}", "${_c9}", "${", "}", "$", "{", "${A", "$A", "${A:-x}"]) | st.text(max_size=3)
_TEMPLATES = st.lists(_PIECES, max_size=6).map("".join)
_DATA = st.recursive(
    _TEMPLATES | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEMPLATES, inner, max_size=3),
    max_leaves=8,
)
_VALUES = st.dictionaries(_NAMES, st.sampled_from(["", "x", "{A}", "{", "$", "}", "é"]) | st.integers() | st.booleans())


def _where() -> Where:
    return Where(Reading(Document(Path("p.yaml")), {}))


def _texts(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for item in data.items() for part in item for text in _texts(part)]
    if isinstance(data, list):
        return [text for item in data for text in _texts(item)]
    return [data] if isinstance(data, str) else []


@given(_DATA, _VALUES)
def test_substitution_never_leaves_an_open_reference(data: Any, values: dict[str, Any]) -> None:
    """Whatever the texts and values are, the result holds no `${`, or there is an error."""
    try:
        replaced = substitute(data, values, _where())
    except FaultyError:
        return  # refused, which is fine
    assert not [text for text in _texts(replaced) if "${" in text]
    assert references(data) <= set(values)


def test_a_value_that_would_make_a_new_reference_is_refused() -> None:
    """A dollar before a reference cannot turn its value into another reference."""
    with pytest.raises(FaultyError, match="is left after variables were filled in"):
        substitute("$${A}", {"A": "{B}"}, _where())


def test_a_text_that_is_one_reference_keeps_the_type(loaded: Any) -> None:
    """An integer variable can stand where a number must."""
    profile = loaded(
        """
dtu: 1
name: x
vars: {N: {type: integer}, FAST: {type: boolean}}
limits: {pids: "${N}"}
uv: {github_fast_path: "${FAST}"}
environment: {BOTH: "${N} ${FAST}"}
""",
        N="7",
        FAST="TRUE",
    ).profile
    assert (profile.limits.pids, profile.uv.github_fast_path) == (7, True)
    assert profile.environment == (("BOTH", "7 true"),)


def test_a_missing_variable_is_named_with_line_and_option(refused: Any) -> None:
    """A variable without a value is never skipped."""
    error = refused("dtu: 1\nname: x\nvars: {CORE: {default: a}}\ndescription: |\n  uses\n  ${CORR}\n")
    assert "profile.yaml:4: description: the variable ${CORR} has no value; did you mean 'CORE'?" in error.message
    assert "--var CORR=VALUE" in error.remedy


def test_a_required_variable_must_be_given(refused: Any) -> None:
    """Its description is part of the message."""
    error = refused("dtu: 1\nname: x\nvars:\n  CORE: {required: true, description: the tree}\n")
    assert "profile.yaml:4: vars.CORE: a value is required (the tree)" in error.message
    assert "--var CORE=VALUE" in error.remedy


def test_an_undeclared_variable_is_refused_with_a_suggestion(refused: Any) -> None:
    """A slip on the command line is not dropped."""
    error = refused("dtu: 1\nname: x\nvars:\n  CORE: {default: a}\n", CORR="b")
    assert "--var CORR is given, but the profile does not declare it: did you mean 'CORE'?" in error.message
    assert "leave --var CORR out" in error.remedy
    assert "it has no variables" in refused("dtu: 1\nname: x\n", CORE="b").message


@pytest.mark.parametrize(
    ("declaration", "given", "words"),
    [
        ("{type: integer}", "1.5", "must be a whole number"),
        ("{type: boolean}", "yes", "must be true or false"),
        ("{type: integer, default: '1'}", None, "must be a whole number"),
        ("{default: 1}", None, "must be a text"),
        ("{default: a, required: true}", None, "is required and has a default"),
        ("{default: '${OTHER}'}", None, "cannot refer to another one"),
        ("{}", "${OTHER}", "cannot refer to another one"),
        ("{type: number}", None, "cannot be 'number'"),
        ("{defualt: a}", None, "did you mean 'default'?"),
        ("text", None, "must be a mapping"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(
    refused: Any, declaration: str, given: str | None, words: str
) -> None:
    """The types are kept, and a declaration is as strict as the rest."""
    variables = {} if given is None else {"V": given}
    assert words in refused(f"dtu: 1\nname: x\nvars:\n  V: {declaration}\n", **variables).message


def test_paths_start_where_they_were_written(loaded: Any, folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """A path given on the command line starts from the current folder, a default from the profile's."""
    (tmp_path / "elsewhere" / "own").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = "dtu: 1\nname: x\nvars: {T: {type: path, default: tree}}\nrepositories: [{path: '${T}', url: 'https://h.example/o/r'}]"
    assert loaded(text).profile.repositories[0].path == folder / "tree"
    assert loaded(text, T="own").profile.repositories[0].path == tmp_path / "elsewhere" / "own"


def test_a_variable_in_a_key_is_refused(refused: Any) -> None:
    """Keys are what they are."""
    assert "a key cannot hold a variable" in refused("dtu: 1\nname: x\nenvironment: {'${A}': x}\n").message
