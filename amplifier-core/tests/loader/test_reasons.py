"""Reason codes: why a module could not be used, for machines."""

from __future__ import annotations

import sys

import pytest

from amplifier_core import ModuleValidationError
from amplifier_core.loader import module_failure_reason
from amplifier_core.module_sources import ModuleLoadError
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFound


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test leave anything on sys.path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SourceNotFound("x"), "missing_source"),
        (ModuleValidationError("x"), "validation_failed"),
        (ModuleValidationError("x", reason_code="invalid_module_metadata"), "invalid_module_metadata"),
        (ModuleValidationError("x", reason_code="made up"), "unknown"),
        (ModuleLoadError("x"), "unknown"),
        (ModuleNotFoundError("x"), "unknown"),
        (ValueError("x"), "unknown"),
        (KeyboardInterrupt(), "unknown"),
    ],
)
def test_reason_of_an_exception(error: BaseException, reason: str) -> None:
    """Own errors carry their code, a source's not-found is missing_source, all others are unknown."""
    assert module_failure_reason(error) == reason
