"""What MountPlanValidator says of mount plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.validation import MountPlanValidationResult, MountPlanValidator, ValidationCheck

SESSION = {"orchestrator": {"module": "loop-x"}, "context": {"module": "context-x"}}


def failures(plan: Any) -> list[tuple[str, str, str]]:
    """Return the failed checks of a plan."""
    return [
        (check.severity, check.name, check.message)
        for check in MountPlanValidator().validate(plan).checks
        if not check.passed
    ]


def test_smallest_valid_plan() -> None:
    """A session with an orchestrator and a context is enough."""
    result = MountPlanValidator().validate({"session": SESSION})
    assert result.passed
    assert [(check.name, check.message) for check in result.checks] == [
        ("root_type", "Mount plan is a dict"),
        ("session_present", "Session section present"),
        ("session.context_module_valid", "Module path 'context-x' at session.context is valid"),
        ("session.orchestrator_module_valid", "Module path 'loop-x' at session.orchestrator is valid"),
    ]
    assert result.summary() == "PASSED: 4/4 checks passed (0 errors, 0 warnings)"
    assert result.format_errors() == "No errors"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            {"session": SESSION, "zebra": 1, "apple": 2, 7: 3, "agents": "anything"},
            [("warning", "unknown_sections", "Unknown sections will be ignored: [7, 'apple', 'zebra']")],
        ),
        ({"session": SESSION, "orchestrator": {"config": {}}, "context": {"config": {}}}, []),
    ],
)
def test_sections(plan: dict[Any, Any], expected: list[tuple[str, str, str]]) -> None:
    """Unknown sections are only warned of; those that carry config are known."""
    assert failures(plan) == expected


def test_secrets_are_not_repeated() -> None:
    """A spec that is shown because it lacks its module keeps its keys and passwords to itself."""
    spec = {"name": "p", "config": {"api_key": "sk-very-secret"}}
    [(_, _, message)] = failures({"session": SESSION, "providers": [spec]})
    assert "  Got: {'name': 'p', 'config': {'api_key': '[REDACTED]'}}" in message


def test_format_errors() -> None:
    """Errors are numbered under a title, with a total; warnings are left out."""
    result = MountPlanValidationResult()
    result.add(ValidationCheck("a", False, "first", "error"))
    result.add(ValidationCheck("b", False, "odd", "warning"))
    result.add(ValidationCheck("c", False, "second", "error"))
    assert result.format_errors() == (
        "Mount Plan Validation Failed:\n\n  1. [a] first\n  2. [c] second\n\nTotal: 2 error(s)"
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["session", "tools", "module", "config", "source", "orchestrator", "context", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(_JSON)
def test_any_plan_gets_a_result(plan: Any) -> None:
    """No plan makes the validator raise, and passed means that no error is listed."""
    result = MountPlanValidator().validate(plan)
    assert result.checks
    assert result.passed is (result.format_errors() == "No errors")
