"""How a module folder wants to be loaded; Python is the only way there is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleLoader, ModuleValidationError
from amplifier_core._discovery import check_manifest


def manifest(folder: Path, text: str) -> Path:
    """Write amplifier.toml into a folder and return the folder."""
    (folder / "amplifier.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not toml at all", "="),
        ("", "[module]"),
        ("[other]\nx = 1", "[module]"),
        ("module = 5", "[module]"),
        ("[module]\ntransport = 'python'", "type"),
        ("[module]\ntype = 'gadget'", "'gadget'"),
        ("[module]\ntype = 5", "5"),
        ("[module]\ntype = 'tool'\ntransport = 5", "transport"),
    ],
)
def test_malformed_manifest(tmp_path: Path, text: str, reason: str) -> None:
    """A file that is wrong in any way is refused with its path and what is wrong with it."""
    manifest(tmp_path, text)

    with pytest.raises(ModuleValidationError) as caught:
        check_manifest("tool-x", tmp_path)

    assert str(caught.value).startswith(f"failed to parse amplifier.toml at {tmp_path / 'amplifier.toml'}: ")
    assert reason in str(caught.value)
    assert caught.value.reason_code == "invalid_module_metadata"


@pytest.fixture
def package(make_module: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a module that is in order."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder: Path = make_module("tool-x", "async def mount(coordinator, config): ...")
    return folder


@pytest.mark.parametrize("transport", ["grpc", "wasm", "native", "carrier-pigeon"])
async def test_other_transports_are_refused(package: Path, resolving: Any, transport: str) -> None:
    """Any transport but python is refused with its name, the place and what is supported, never guessed around."""
    manifest(package, f"[module]\ntype = 'tool'\ntransport = '{transport}'\n")
    coordinator, _ = resolving(package)

    with pytest.raises(ModuleValidationError) as caught:
        await ModuleLoader().load("tool-x", coordinator=coordinator)

    text = str(caught.value)
    assert f"'{transport}'" in text
    assert str(package) in text
    assert "only 'python' is supported" in text
    assert caught.value.reason_code == "invalid_module_metadata"
    assert "amplifier_module_tool_x" not in sys.modules
