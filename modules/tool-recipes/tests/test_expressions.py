"""Templates and conditions mean what they say, and every mistake is a ValueError."""

from __future__ import annotations

import json
import operator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_module_tool_recipes.expressions import (
    check_condition,
    evaluate,
    parsed_result,
    substitute,
    substitute_all,
)

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
_PLAIN = st.text(max_size=10).filter(lambda text: "{" not in text and "}" not in text)


@given(st.dictionaries(_NAMES, _JSON, min_size=1), st.lists(st.tuples(_PLAIN, st.integers(0, 9))), _PLAIN)
def test_variables_are_replaced_and_nothing_else(
    values: dict[str, Any], parts: list[tuple[str, int]], end: str
) -> None:
    """Text stays as it is; a variable becomes its text, or its JSON when it is no text."""
    names = sorted(values)
    template = "".join(f"{text}{{{{ {names[number % len(names)]} }}}}" for text, number in parts) + end
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }
    assert substitute(template, values) == "".join(text + shown[names[n % len(names)]] for text, n in parts) + end


@given(_NAMES, _JSON)
def test_a_variable_alone_keeps_its_type(name: str, value: Any) -> None:
    """Where a value is expected, `{{x}}` is the value itself, at any depth."""
    assert substitute_all({"a": [f"{{{{{name}}}}}", 1]}, {name: value}) == {"a": [value, 1]}


def test_paths_lead_into_mappings_and_lists() -> None:
    """`{{a.b.0}}` is followed; a text that was put in is not looked at again."""
    assert substitute("{{a.b.0}}", {"a": {"b": ["{{c}}"]}}) == "{{c}}"


@pytest.mark.parametrize("template", ["{{b}}", "{{a.c}}", "{{a.b.1}}", "{{a.b.0.x}}"])
def test_an_undefined_variable_is_an_error(template: str) -> None:
    """The error names the variable."""
    with pytest.raises(ValueError, match=r"undefined variable \{\{"):
        substitute(template, {"a": {"b": ["x"]}})


_NUMBERS = st.integers(-20, 20)
_COMPARED = st.tuples(_NUMBERS, st.sampled_from(["==", "!=", "<", ">", "<=", ">="]), _NUMBERS)
_PYTHON = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _leaf(drawn: tuple[int, str, int]) -> tuple[str, bool]:
    left, symbol, right = drawn
    return f"{left} {symbol} {right}", bool(_PYTHON[symbol](left, right))


def _combined(inner: st.SearchStrategy[tuple[str, bool]]) -> st.SearchStrategy[tuple[str, bool]]:
    both = st.tuples(inner, inner)
    return st.one_of(
        both.map(lambda two: (f"({two[0][0]}) and ({two[1][0]})", two[0][1] and two[1][1])),
        both.map(lambda two: (f"({two[0][0]}) or ({two[1][0]})", two[0][1] or two[1][1])),
        inner.map(lambda one: (f"not ({one[0]})", not one[1])),
    )


@given(st.recursive(_COMPARED.map(_leaf), _combined, max_leaves=8))
def test_conditions_are_evaluated_as_in_python(drawn: tuple[str, bool]) -> None:
    """Comparisons, and, or, not and parentheses have their usual meaning."""
    condition, expected = drawn
    assert evaluate(condition, {}) is expected


@given(_COMPARED, _COMPARED, _COMPARED)
def test_and_binds_tighter_than_or(one: Any, two: Any, three: Any) -> None:
    """Without parentheses, `a or b and not c` is `a or (b and (not c))`."""
    (a, is_a), (b, is_b), (c, is_c) = map(_leaf, (one, two, three))
    assert evaluate(f"{a} or {b} and not {c}", {}) is (is_a or (is_b and not is_c))


@given(st.text(alphabet="{}()'\"<>=! andortfx019.\\_", max_size=30) | st.text(max_size=20))
def test_any_other_text_is_a_value_error(text: str) -> None:
    """A condition from anywhere is either evaluated or refused; no other exception, and nothing is executed."""
    try:
        assert evaluate(text, {}) in (True, False)
    except ValueError:
        return
    check_condition(text)  # what can be evaluated is well-formed


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{{n}} == 3", True),
        ("{{text}} > 9", True),
        ("{{flag}} == true", True),
        ("{{name}} == 'a b'", True),
        ("'{{name}}!' == \"a b!\"", True),
        ("{{nothing}} == null", True),
        ("{{nothing}} != null and {{nothing}} > 3", False),
        ("{{list}}", True),
        ("'false'", False),
        ("not {{empty}}", True),
        (r"'it\'s' == {{quote}}", True),
    ],
)
def test_values_of_variables(condition: str, expected: bool) -> None:
    """Output of commands is text: it is compared as the number or truth value that it stands for."""
    values = {
        "n": 3,
        "text": "10",
        "flag": "True",
        "name": "a b",
        "nothing": None,
        "list": [0],
        "empty": "",
        "quote": "it's",
    }
    assert evaluate(condition, values) is expected


@pytest.mark.parametrize("condition", ["status == 'ok'", "1 <", "(1", "1 2", "__import__('os')", "'a' < 1", "$", ""])
def test_mistakes_are_quoted(condition: str) -> None:
    """The error names the condition."""
    with pytest.raises(ValueError, match="invalid condition"):
        evaluate(condition, {})


@given(_JSON, _PLAIN, _PLAIN)
def test_the_last_json_is_found(value: Any, before: str, after: str) -> None:
    """`parse_json` finds the last mapping or list in prose; a text that is JSON is parsed without it."""
    assume(isinstance(value, dict | list))
    assume(not {"[", "]"} & {*before, *after})
    text = f"{before} [1] {json.dumps(value)} {after}"
    assert parsed_result(text, takes_last=True) == value
    assert parsed_result(json.dumps(value)) == value
    assert parsed_result("no json", takes_last=True) == "no json"
