"""The modules that a mount plan names, in the order they are mounted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.plan import (
    MODULE_SECTIONS,
    SESSION_MODULES,
    TYPE_TO_MOUNT_POINT,
    check_shape,
    plan_modules,
    session_module,
)

PLAN: dict[str, Any] = {
    "hooks": [{"module": "hooks-logging"}],
    "tools": [{"module": "tool-bash", "config": {"a": 1}}, {"id": "nothing"}],
    "providers": [{"module": "provider-mock", "instance_id": "second"}],
    "session": {
        "context": {"module": "context-simple"},
        "orchestrator": "loop-basic",
        "orchestrator_source": "git+https://example.com/loop",
    },
    "orchestrator": {"config": {"max": 3}},
}


def test_modules_come_in_mount_order() -> None:
    """Orchestrator, context, providers, tools and hooks come in this order, each with its place in the plan."""
    assert [(module.kind, module.path, module.module_id) for module in plan_modules(PLAN)] == [
        ("orchestrator", "session.orchestrator", "loop-basic"),
        ("context", "session.context", "context-simple"),
        ("provider", "providers[0]", "provider-mock"),
        ("tool", "tools[0]", "tool-bash"),
        ("hook", "hooks[0]", "hooks-logging"),
    ]


def test_an_orchestrator_given_by_its_id_has_an_entry_like_all_others() -> None:
    """Source and config of a module that is given by its id alone are found where the plan keeps them."""
    assert session_module(PLAN, "orchestrator") == {
        "module": "loop-basic",
        "source": "git+https://example.com/loop",
        "config": {"max": 3},
    }


@pytest.mark.parametrize("kind", SESSION_MODULES)
def test_a_source_without_a_module_belongs_to_the_default(kind: str) -> None:
    """What the kernel would load is what the walk shows: the default module, from the source that is given."""
    [module] = plan_modules({"session": {kind: {"source": "elsewhere"}}})
    assert module.entry == {"source": "elsewhere", "module": SESSION_MODULES[kind]}


def test_every_kind_of_a_plan_has_a_mount_point() -> None:
    """Sections are named after the mount points of the kinds they list."""
    assert {TYPE_TO_MOUNT_POINT[kind]: kind for kind in MODULE_SECTIONS.values()} == MODULE_SECTIONS
    assert set(SESSION_MODULES) < set(TYPE_TO_MOUNT_POINT)


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["module", "config"]), inner),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "session": st.dictionaries(st.sampled_from(list(SESSION_MODULES)), ANYTHING) | st.none(),
            **dict.fromkeys(MODULE_SECTIONS, ANYTHING),
        },
    )
)
def test_a_plan_that_passes_the_check_is_walked_whole(plan: dict[str, Any]) -> None:
    """The walk never raises; in a plan of the right shape it leaves out only entries that name no module."""
    found = {module.path for module in plan_modules(plan)}
    try:
        check_shape(plan)
    except TypeError:
        return
    for section in MODULE_SECTIONS:
        for index, entry in enumerate(plan.get(section) or ()):
            assert (f"{section}[{index}]" in found) is bool(entry.get("module"))
