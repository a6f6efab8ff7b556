"""Reason codes: why a module could not be used, for machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleLoader, ModuleValidationError
from amplifier_core.loader import module_failure_reason
from amplifier_core.module_sources import ModuleLoadError
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFound

GOOD = "async def mount(coordinator, config): ..."


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test leave anything on sys.path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_validation_error() -> None:
    """ModuleValidationError is a plain Exception with a code, validation_failed by default, by keyword only."""
    assert ModuleValidationError.__mro__[1] is Exception
    assert ModuleValidationError("text").reason_code == "validation_failed"
    error = ModuleValidationError("text", reason_code="missing_source")
    assert (str(error), error.reason_code) == ("text", "missing_source")
    with pytest.raises(TypeError):
        ModuleValidationError("text", "missing_source")  # type: ignore[call-arg]


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


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files into a folder and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


PACKAGE = "amplifier_module_tool_reason/__init__.py"
METADATA = "invalid_module_metadata"


@pytest.mark.parametrize(
    ("files", "reason", "text"),
    [
        ({"README.md": ""}, "invalid_package_layout", "has no valid Python package at"),
        (None, "missing_source", "has no valid Python package at"),
        ({PACKAGE: "x = 1"}, "invalid_entry_point", "mount_exists"),
        ({PACKAGE: "def mount(coordinator, config): ..."}, "invalid_entry_point", "mount_signature"),
        ({PACKAGE: GOOD + "\ndef on_session_ready(c): ..."}, "invalid_entry_point", "on_session_ready_async"),
        ({PACKAGE: "raise OSError"}, "validation_failed", "module_importable"),
        (
            {PACKAGE: GOOD + "\n__amplifier_module_type__ = 'gadget'"},
            "invalid_module_metadata",
            "unknown type 'gadget'",
        ),
        (
            {PACKAGE: GOOD, "amplifier.toml": "[module]\ntype='tool'\ntransport='grpc'"},
            "invalid_module_metadata",
            "grpc",
        ),
        ({PACKAGE: GOOD, "amplifier.toml": "not toml"}, METADATA, "failed to parse amplifier.toml at"),
    ],
)
async def test_reason_of_a_resolved_module(
    tmp_path: Path,
    make_module: Any,
    resolving: Any,
    files: dict[str, str] | None,
    reason: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each way in which a resolved folder can be wrong has its code."""
    folder = tmp_path / "source"
    if files is not None:
        write(folder, files)
    coordinator, _ = resolving(folder)
    try:
        with pytest.raises(ModuleValidationError) as caught:
            await ModuleLoader().load("tool-reason", coordinator=coordinator)
    finally:
        sys.modules.pop("amplifier_module_tool_reason", None)

    assert module_failure_reason(caught.value) == reason
    assert text in str(caught.value)


async def test_no_package_text(tmp_path: Path, resolving: Any) -> None:
    """The text for a folder without a package names module and path."""
    coordinator, _ = resolving(tmp_path)

    with pytest.raises(ModuleValidationError) as caught:
        await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert str(caught.value) == f"Module 'tool-x' has no valid Python package at {tmp_path}"


async def test_nothing_installed(install: Any) -> None:
    """A module that is not installed is missing_source."""
    install()

    with pytest.raises(ValueError) as caught:
        await ModuleLoader().load("tool-nowhere")

    assert module_failure_reason(caught.value) == "missing_source"


async def test_installed_without_mount(make_module: Any, install: Any) -> None:
    """An installed package without mount() is invalid_entry_point."""
    install()
    make_module("tool-empty", "")

    with pytest.raises(ValueError) as caught:
        await ModuleLoader().load("tool-empty")

    assert module_failure_reason(caught.value) == "invalid_entry_point"
