"""How a module folder wants to be loaded; Python is the only way there is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader, ModuleValidationError
from amplifier_core._transport import MODULE_TYPES, TransportError, detect_transport


def manifest(folder: Path, text: str) -> Path:
    """Write amplifier.toml into a folder and return the folder."""
    (folder / "amplifier.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[module]\ntype = 'provider'\n",
            {"transport": "python", "module_type": "provider", "artifact_type": "python", "package_name": None},
        ),
        (
            "[module]\ntype = 'tool'\ntransport = 'python'\nartifact = 'my_package'\n",
            {"transport": "python", "module_type": "tool", "artifact_type": "python", "package_name": "my_package"},
        ),
        (
            "[module]\ntype = 'tool'\ntransport = 'grpc'\n[grpc]\nendpoint = 'http://[::1]:50051'\n",
            {"transport": "grpc", "module_type": "tool", "artifact_type": "grpc", "endpoint": "http://[::1]:50051"},
        ),
        (
            "[module]\ntype = 'hook'\ntransport = 'wasm'\nartifact = 'module.wasm'\nsha256 = 'abc'\n",
            {"transport": "wasm", "module_type": "hook", "artifact_type": "wasm", "artifact_path": "module.wasm"},
        ),
        (
            "[module]\ntype = 'context'\ntransport = 'native'\ncrate = 'my-crate'\n",
            {"transport": "native", "module_type": "context", "artifact_type": "native", "crate_name": "my-crate"},
        ),
    ],
)
def test_manifest(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    """amplifier.toml says type, transport and artifact; python is the default transport."""
    assert detect_transport(manifest(tmp_path, text)) == expected


@pytest.mark.parametrize("kind", MODULE_TYPES)
def test_module_types(tmp_path: Path, kind: str) -> None:
    """Seven types are known to amplifier.toml."""
    assert detect_transport(manifest(tmp_path, f"[module]\ntype = '{kind}'"))["module_type"] == kind


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

    with pytest.raises(TransportError) as caught:
        detect_transport(tmp_path)

    assert str(caught.value).startswith(f"failed to parse amplifier.toml at {tmp_path / 'amplifier.toml'}: ")
    assert reason in str(caught.value)


def test_not_even_text(tmp_path: Path) -> None:
    """A file that is no UTF-8 is a malformed one."""
    (tmp_path / "amplifier.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(TransportError, match="failed to parse"):
        detect_transport(tmp_path)


def test_order_of_signs(tmp_path: Path) -> None:
    """amplifier.toml counts more than a .wasm file, and that more than a Python package."""
    (tmp_path / "amplifier_module_x").mkdir()
    (tmp_path / "amplifier_module_x" / "__init__.py").touch()
    python = {
        "transport": "python",
        "module_type": "tool",
        "artifact_type": "python",
        "package_name": "amplifier_module_x",
    }
    assert detect_transport(tmp_path) == python
    assert detect_transport(tmp_path / "amplifier_module_x") == python

    (tmp_path / "x.wasm").touch()
    wasm = {
        "transport": "wasm",
        "module_type": "tool",
        "artifact_type": "wasm",
        "artifact_path": str(tmp_path / "x.wasm"),
    }
    assert detect_transport(tmp_path) == wasm

    manifest(tmp_path, "[module]\ntype = 'hook'")
    assert detect_transport(tmp_path)["module_type"] == "hook"


def test_nothing_there(tmp_path: Path) -> None:
    """An empty folder and a missing one are RuntimeErrors with the published beginnings."""
    with pytest.raises(RuntimeError) as caught:
        detect_transport(tmp_path)
    assert str(caught.value).startswith(f"could not detect module transport at {tmp_path}")

    with pytest.raises(RuntimeError) as caught:
        detect_transport(tmp_path / "nowhere")
    assert str(caught.value) == f"module path does not exist: {tmp_path / 'nowhere'}"


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


async def test_wasm_file_is_refused(package: Path, resolving: Any) -> None:
    """A .wasm file beside a Python package asks for wasm, and is refused."""
    (package / "module.wasm").touch()
    coordinator, _ = resolving(package)

    with pytest.raises(ModuleValidationError, match="'wasm'"):
        await ModuleLoader().load("tool-x", coordinator=coordinator)


async def test_python_is_loaded(package: Path, resolving: Any) -> None:
    """A manifest that says python, or nothing of a transport, changes nothing."""
    manifest(package, "[module]\ntype = 'tool'\n")
    coordinator, _ = resolving(package)

    assert await (await ModuleLoader().load("tool-x", coordinator=coordinator))(coordinator) is None


async def test_check_needs_the_coordinator_argument(package: Path, resolving: Any) -> None:
    """Without the coordinator argument load() does not look at the transport."""
    manifest(package, "[module]\ntype = 'tool'\ntransport = 'grpc'\n")
    coordinator, _ = resolving(package)

    mount = await ModuleLoader(coordinator=coordinator).load("tool-x")

    assert await mount(ModuleCoordinator()) is None
