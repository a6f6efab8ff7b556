"""The validator of mount plans."""

from __future__ import annotations

from typing import Any

from amplifier_core.validation import MountPlanValidator
from amplifier_core.validation.mount_plan import MountPlanValidationResult

from .base import Stage, scenario

GOOD: dict[str, Any] = {"session": {"orchestrator": {"module": "loop-x"}, "context": {"module": "context-x"}}}


def checked(plan: Any) -> Any:
    """Validate a plan and tell everything about the result but the order of the checks, which is that of a set."""
    result = MountPlanValidator().validate(plan)
    errors = sorted(line.lstrip(" 0123456789.") for line in result.format_errors().splitlines())
    checks = sorted((vars(check) for check in result.checks), key=lambda check: str(check["name"]))
    return [result.passed, result.summary(), errors, checks]


@scenario
async def good(stage: Stage) -> Any:
    """A plan without faults."""
    return checked(
        {**GOOD, "tools": [{"module": "tool-x", "config": {}, "source": "here"}], "providers": [], "agents": 5}
    )


@scenario
async def not_a_dict(stage: Stage) -> Any:
    """A plan that is something else."""
    plans: list[Any] = [None, [], "text"]
    return [checked(plan) for plan in plans]


@scenario
async def session_section(stage: Stage) -> Any:
    """A session section that is missing, of the wrong type, or incomplete."""
    plans: list[Any] = [{}, {"session": []}, {"session": {}}, {"session": {"context": {"module": "c"}}}]
    return [checked(plan) for plan in plans]


@scenario
async def text_specs(stage: Stage) -> Any:
    """Orchestrators given by name."""
    return checked({"session": {"orchestrator": "loop-x", "context": "context-x"}})


@scenario
async def sections(stage: Stage) -> Any:
    """Sections that are no lists, and unknown ones."""
    return checked({**GOOD, "tools": {"module": "x"}, "hooks": "text", "gadgets": [], "widgets": 1})


@scenario
async def config_sections(stage: Stage) -> Any:
    """The sections that carry the config of the orchestrator and the context."""
    return checked({**GOOD, "orchestrator": {"config": {}}, "context": {"config": {}}})


@scenario
async def specs(stage: Stage) -> Any:
    """Faulty entries of every kind."""
    entries: list[Any] = [
        {"config": {}},
        {"module": 5},
        {"module": ""},
        {"module": "  "},
        {"module": "x", "config": []},
        {"module": "x", "source": 5},
        {"module": "x", "config": None, "source": None},
        "text",
        None,
    ]
    return [checked({**GOOD, "tools": [entry]}) for entry in entries]


@scenario
async def all_entries_are_checked(stage: Stage) -> Any:
    """Every fault is named."""
    return checked(
        {"session": {"orchestrator": {}, "context": None}, "providers": [{}, "x"], "hooks": [{"module": "ok"}, {}]}
    )


@scenario
async def constants(stage: Stage) -> Any:
    """The sections and fields by name."""
    kind = MountPlanValidator
    return {
        "required": sorted(kind.REQUIRED_SECTIONS),
        "session": sorted(kind.REQUIRED_SESSION_FIELDS),
        "spec": sorted(kind.REQUIRED_MODULE_SPEC_FIELDS),
        "optional": sorted(kind.OPTIONAL_SECTIONS),
    }


@scenario
async def empty_result(stage: Stage) -> Any:
    """A result without checks."""
    result = MountPlanValidationResult()
    return [result.passed, result.summary(), result.format_errors(), result.errors, result.warnings]
