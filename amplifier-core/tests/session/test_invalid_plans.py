"""A plan of the wrong shape is refused before anything is loaded, in words that say where and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader


class NeverLoads(ModuleLoader):
    """Fail the test when it is asked for anything."""

    async def load(self, *arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("a bad plan must be refused before anything is loaded")


@pytest.mark.parametrize("section", ["providers", "tools", "hooks"])
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"module": "x"}, "'{section}' section must be a list, got dict"),
        ("x", "'{section}' section must be a list, got str"),
        (
            ["x"],
            "Module spec at {section}[0] must be a dict, got str: write {{'module': 'x'}} for the module of that id",
        ),
        ([{"module": "x"}, None], "Module spec at {section}[1] must be a dict, got NoneType"),
        ([{"module": 5}], "Module path at {section}[0] must be a string, got int"),
        ([{"module": ["x"]}], "Module path at {section}[0] must be a string, got list"),
        ([{"module": "x", "config": ["y"]}], "Config at {section}[0] must be a dict, got list"),
        ([{"module": "x", "config": "y"}], "Config at {section}[0] must be a dict, got str"),
    ],
)
async def test_sections(section: str, entries: Any, message: str) -> None:
    """Each entry must be a dict with a string for module and a dict for config; the text names the very place."""
    plan = {"session": {"orchestrator": "o", "context": "c"}, section: entries}
    session = AmplifierSession(plan, NeverLoads())

    with pytest.raises(TypeError) as caught:
        await session.initialize()

    assert str(caught.value) == message.format(section=section)
    assert session.initialized is False


@pytest.mark.parametrize("section", ["orchestrator", "context"])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (5, "Module spec at session.{section} must be a module's id or a dict, got int"),
        (["x"], "Module spec at session.{section} must be a module's id or a dict, got list"),
        ({"module": 5}, "Module path at session.{section} must be a string, got int"),
        ({"module": "x", "config": [1]}, "Config at session.{section} must be a dict, got list"),
    ],
)
async def test_orchestrator_and_context(section: str, spec: Any, message: str) -> None:
    """The two required modules are given by id or as a dict."""
    plan = {"session": {"orchestrator": "o", "context": "c", section: spec}}

    with pytest.raises(TypeError) as caught:
        await AmplifierSession(plan, NeverLoads()).initialize()

    assert str(caught.value) == message.format(section=section)


async def test_missing_module_with_a_near_name(make_plan: Any, make_module: Any) -> None:
    """A module that is not there is reported with the nearest one that is."""
    make_module("loop-streaming", "")

    with pytest.raises(RuntimeError) as caught:
        await AmplifierSession(make_plan(session={"orchestrator": "loop-straming"})).initialize()

    assert str(caught.value) == (
        "Cannot initialize without orchestrator: Module 'loop-straming' not found via entry points or filesystem. "
        "Did you mean 'loop-streaming'?"
    )


@pytest.mark.parametrize("key", ["hook_timeout", "ready_timeout", "approval_timeout"])
@pytest.mark.parametrize("value", ["5", True, 0, -1, float("nan"), [1]])
def test_deadlines_must_be_positive_numbers(key: str, value: Any) -> None:
    """A deadline that is no positive number of seconds is refused by name."""
    with pytest.raises(ValueError, match=rf"session\.{key} must be a positive number of seconds"):
        AmplifierSession({"session": {"orchestrator": "o", "context": "c", key: value}})
