"""What an untrusted project writes into the config of a module that runs commands does not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.documents import Document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.plan.config_trust import is_config_of_user, is_config_trusted
from amplifier_foundation.plan.prepared import Prepared

_SHELL = {"hooks": [{"module": "hook-shell", "config": {"hooks": {}}}]}


def _layer(owner: Any, data: dict[str, Any], named_by: Any = "user", *, is_given: bool = False) -> Layer:
    return Layer(Document(Path(f"{owner}.yaml"), data), owner, named_by, "x", "x", is_given)


def _prepared(*layers: Layer, **more: Any) -> Prepared:
    return Prepared(Composed("x", "x", "", "", {}, ""), Home(Path("/h")), Path("/p"), layers=layers, **more)


@pytest.mark.parametrize(
    ("prepared", "is_trusted", "expected"),
    [
        (_prepared(_layer("user", _SHELL)), False, True),
        (_prepared(_layer("user", {}), _layer("project", _SHELL)), False, False),
        (_prepared(_layer("user", {}), _layer("project", _SHELL)), True, True),
        (_prepared(_layer("user", _SHELL), _layer("project", {"tools": []})), False, True),
        (_prepared(_layer("fetched", _SHELL, named_by="project")), False, False),
        (_prepared(_layer("project", {"agents": {"a": _SHELL}})), False, False),
        (_prepared(_layer("project", _SHELL, is_given=True)), False, True),
        (_prepared(), False, False),
        (_prepared(is_made_by_app=True), False, True),
    ],
)
def test_who_had_a_say(prepared: Prepared, is_trusted: bool, expected: bool) -> None:
    """A config counts when nobody but the user, the product or the app had a say in it, or the project is trusted."""
    assert is_config_trusted(prepared, "hook-shell", is_trusted=is_trusted) is expected


def test_agents_may_come_from_the_project() -> None:
    """What the definition of an agent says of a module counts only in a trusted project."""
    prepared = _prepared(_layer("user", {}))
    assert not is_config_trusted(prepared, "hook-shell", is_trusted=False, overlay=_SHELL)
    assert is_config_trusted(prepared, "hook-shell", is_trusted=False, overlay={"tools": []})
    assert is_config_trusted(prepared, "hook-shell", is_trusted=True, overlay=_SHELL)


_OTHER = {"hooks": [{"module": "hook-shell", "config": {"hooks": {"PreToolUse": ["other"]}}}]}


def _recorded(plan: dict[str, Any], *layers: Layer) -> Prepared:
    composed = Composed("x", "x", "", "", plan, "")
    return Prepared(composed, Home(Path("/h")), Path("/p"), layers=layers, is_recorded=True)


@pytest.mark.parametrize(
    ("prepared", "expected"),
    [
        (_prepared(_layer("user", _SHELL)), True),
        (_prepared(_layer("fetched", _SHELL)), True),
        (_prepared(_layer("user", _SHELL), _layer("project", {"tools": []})), True),
        (_prepared(_layer("user", {}), _layer("project", _SHELL)), False),
        (_prepared(_layer("user", {}), _layer("project", _SHELL, is_given=True)), False),
        (_prepared(_layer("user", {}), _layer("fetched", _SHELL, named_by="project")), False),
        (_prepared(_layer("user", _SHELL), _layer("product", _SHELL, named_by="project")), True),
        (_prepared(), False),
        (_prepared(is_made_by_app=True), True),
        (_recorded(_OTHER, _layer("user", _OTHER)), True),
        (_recorded(_OTHER, _layer("user", _SHELL)), False),
        (_recorded(_OTHER), False),
    ],
)
def test_who_brings_a_config(prepared: Prepared, expected: bool) -> None:
    """A config is the user's when no file of the project had a say in it, however it is trusted or was given."""
    assert is_config_of_user(prepared, "hook-shell") is expected
