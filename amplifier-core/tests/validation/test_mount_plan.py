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


def test_constants() -> None:
    """The sections and fields that a plan must and may have are public."""
    assert {"session"} == MountPlanValidator.REQUIRED_SECTIONS
    assert {"providers", "tools", "hooks", "agents"} == MountPlanValidator.OPTIONAL_SECTIONS
    assert {"orchestrator", "context"} == MountPlanValidator.REQUIRED_SESSION_FIELDS
    assert {"module"} == MountPlanValidator.REQUIRED_MODULE_SPEC_FIELDS


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


@pytest.mark.parametrize(("plan", "kind"), [(None, "NoneType"), ([], "list"), ("x", "str")])
def test_root_must_be_a_dict(plan: Any, kind: str) -> None:
    """Anything but a dict is refused, and nothing else is said of it."""
    assert failures(plan) == [("error", "root_type", f"Mount plan must be a dict, got {kind}")]
    assert len(MountPlanValidator().validate(plan).checks) == 1


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({}, [("error", "session_present", "Mount plan missing required 'session' section")]),
        ({"session": 5}, [("error", "session_type", "Session section must be a dict, got int")]),
        (
            {"session": {}},
            [
                ("error", "session_context_present", "Session section missing required 'context' field"),
                ("error", "session_orchestrator_present", "Session section missing required 'orchestrator' field"),
            ],
        ),
        (
            {"session": {**SESSION, "orchestrator": "loop-x"}},
            [
                (
                    "error",
                    "session.orchestrator_type",
                    "Module spec at session.orchestrator must be a dict, got str",
                )
            ],
        ),
        (
            {"session": SESSION, "zebra": 1, "apple": 2, 7: 3, "agents": "anything"},
            [("warning", "unknown_sections", "Unknown sections will be ignored: [7, 'apple', 'zebra']")],
        ),
        ({"session": SESSION, "orchestrator": {"config": {}}, "context": {"config": {}}}, []),
        (
            {"session": SESSION, "tools": {}},
            [("error", "tools_type", "'tools' section must be a list, got dict")],
        ),
    ],
)
def test_sections(plan: dict[Any, Any], expected: list[tuple[str, str, str]]) -> None:
    """Sections are checked by presence and type; unknown ones are only warned of."""
    assert failures(plan) == expected


@pytest.mark.parametrize(
    ("spec", "check", "message"),
    [
        ("x", "type", "Module spec at tools[1] must be a dict, got str"),
        (
            {"name": "x"},
            "module_required",
            (
                "Module spec at tools[1] missing required 'module' field.\n  Got: {'name': 'x'}\n"
                "  Expected: {'module': 'module-name', 'source': '...', 'config': {...}}"
            ),
        ),
        ({"module": 5}, "module_type", "Module path at tools[1] must be a string, got int"),
        ({"module": ""}, "module_empty", "Module path at tools[1] cannot be empty"),
        ({"module": "m", "config": []}, "config_type", "Config at tools[1] must be a dict, got list"),
        ({"module": "m", "source": 1}, "source_type", "Source at tools[1] must be a string, got int"),
    ],
)
def test_module_specs(spec: Any, check: str, message: str) -> None:
    """A faulty spec is named by its path in the plan."""
    plan = {"session": SESSION, "tools": [{"module": "fine"}, spec]}
    assert failures(plan) == [("error", f"tools[1]_{check}", message)]


def test_secrets_are_not_repeated() -> None:
    """A spec that is shown because it lacks its module keeps its keys and passwords to itself."""
    spec = {"name": "p", "config": {"api_key": "sk-very-secret"}}
    [(_, _, message)] = failures({"session": SESSION, "providers": [spec]})
    assert "  Got: {'name': 'p', 'config': {'api_key': '[REDACTED]'}}" in message


def test_empty_section_is_noted() -> None:
    """An empty list of modules passes, with a note."""
    checks = MountPlanValidator().validate({"session": SESSION, "hooks": []}).checks
    assert (checks[-1].passed, checks[-1].name, checks[-1].message) == (True, "hooks_empty", "'hooks' section is empty")


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
