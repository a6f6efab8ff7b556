"""Bundles as objects are validated, whatever class they are of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_foundation import (
    BundleValidationError,
    BundleValidator,
    ValidationResult,
    validate_bundle,
    validate_bundle_or_raise,
)
from amplifier_foundation.bundles.bundle import Bundle


def _bundle(**parts: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"name": "team", **parts})


def test_a_sound_bundle_is_valid() -> None:
    """A bundle that only adds a tool is valid, and not complete."""
    bundle = _bundle(tools=[{"module": "tool-bash", "source": "git+https://example.com/org/tool"}])
    assert validate_bundle(bundle) == ValidationResult(True, [], [])
    validate_bundle_or_raise(bundle)
    result = BundleValidator().validate_completeness(bundle)
    assert not result.valid
    assert result.errors == [
        "Mount plan requires session.orchestrator",
        "Mount plan requires session.context",
        "Mount plan requires at least one provider",
    ]
    with pytest.raises(BundleValidationError, match=r"requires session\.context; Mount plan requires at least one"):
        BundleValidator().validate_completeness_or_raise(bundle)


def test_a_complete_bundle() -> None:
    """With a loop, a context and a provider it can be run as it is; ours are accepted as well."""
    parts: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": {"module": "context-simple", "config": {}}},
        "providers": [{"module": "provider-mock", "config": None}],
        "agents": {"helper": {}},
    }
    for bundle in (_bundle(**parts), Bundle(name="team", **parts)):
        assert BundleValidator(strict=True).validate_completeness(bundle) == ValidationResult()
    BundleValidator().validate_completeness_or_raise(_bundle(**parts))


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"name": ""}, "Bundle must have a name"),
        ({"tools": [{"config": {}}]}, "tools[0]: Missing required 'module' field"),
        ({"tools": [{"module": ["x"]}]}, "tools[0]: 'module' must be the id of a module, got list"),
        ({"hooks": [{"module": "h"}, "h"]}, "hooks[1]: expected a mapping with a 'module', got str 'h'"),
        ({"providers": {"module": "p"}}, "providers: expected a list of modules, got dict"),
        ({"tools": [{"module": "t", "config": []}]}, "tools[0]: 'config' must be a mapping, got list"),
        ({"session": ["x"]}, "session: expected a mapping, got list"),
        ({"session": {"context": {"config": {}}}}, "session.context: Missing required 'module' field"),
        ({"agents": ["helper"]}, "agents: expected a mapping, got list"),
        ({"agents": {"helper": "x"}}, "agents['helper']: expected a mapping, got str"),
    ],
)
def test_what_is_wrong_is_named(parts: dict[str, Any], error: str) -> None:
    """Each error says where it is, and an exception has all of them."""
    result = validate_bundle(_bundle(**parts))
    assert (result.valid, result.errors) == (False, [error])
    with pytest.raises(BundleValidationError) as raised:
        validate_bundle_or_raise(_bundle(**parts))
    assert str(raised.value) == f"Bundle validation failed: {error}"


def test_missing_context_is_a_warning(tmp_path: Path) -> None:
    """A file of the context that is missing makes a bundle invalid only when the caller is strict."""
    (tmp_path / "rules.md").write_text("Be brief.", encoding="utf-8")
    bundle = _bundle(context={"rules": tmp_path / "rules.md", "style": tmp_path / "style.md"})
    warning = f"context 'style': there is no file {tmp_path / 'style.md'}"
    assert validate_bundle(bundle) == ValidationResult(True, [], [warning])
    assert validate_bundle(bundle, strict=True) == ValidationResult(False, [warning], [])
    with pytest.raises(BundleValidationError, match="there is no file"):
        validate_bundle_or_raise(bundle, strict=True)
