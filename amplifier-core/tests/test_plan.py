"""The modules that a mount plan names, in the order they are mounted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.plan import (
    MODULE_SECTIONS,
    SESSION_MODULES,
    check_shape,
    plan_modules,
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
