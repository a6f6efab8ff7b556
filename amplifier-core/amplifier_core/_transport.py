"""Tell how a module folder wants to be loaded. Only Python is ours; anything else is refused, never guessed around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODULE_TYPES = ("orchestrator", "provider", "tool", "context", "hook", "resolver", "approval")
_ARTIFACTS = {"grpc": "endpoint", "wasm": "artifact_path", "native": "crate_name", "python": "package_name"}


class TransportError(Exception):
    """A module folder cannot be loaded as it describes itself."""


def detect_transport(path: Path) -> dict[str, Any]:
    """Return transport, module_type, artifact_type and the artifact of the module at `path`.

    Looks at amplifier.toml, then for a .wasm file, then for a Python package. Raises RuntimeError when there is no
    such path or nothing to load in it, TransportError for a malformed amplifier.toml.
    """
    if not path.exists():
        raise RuntimeError(f"module path does not exist: {path}")
    manifest = path / "amplifier.toml"
    if manifest.exists():
        return _read_manifest(manifest)
    for wasm in sorted(path.glob("*.wasm")):
        return {"transport": "wasm", "module_type": "tool", "artifact_type": "wasm", "artifact_path": str(wasm)}
    for package in (path, *sorted(child for child in path.iterdir() if child.is_dir())):
        if (package / "__init__.py").exists():
            return _python(package.name, "tool")
    raise RuntimeError(
        f"could not detect module transport at {path}: no amplifier.toml, no .wasm file and no Python package in it"
    )


def _python(package: str | None, module_type: str) -> dict[str, Any]:
    return {"transport": "python", "module_type": module_type, "artifact_type": "python", "package_name": package}


def _read_manifest(manifest: Path) -> dict[str, Any]:
    import tomllib

    try:
        parsed = tomllib.loads(manifest.read_text(encoding="utf-8"))
        return _described(parsed)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise TransportError(f"failed to parse amplifier.toml at {manifest}: {error}") from error


def _described(parsed: dict[str, Any]) -> dict[str, Any]:
    module = parsed.get("module")
    if not isinstance(module, dict):
        raise ValueError("the [module] table is missing")
    module_type = module.get("type")
    if module_type not in MODULE_TYPES:
        raise ValueError(f"[module] type must be one of {', '.join(MODULE_TYPES)}, got {module_type!r}")
    transport = module.get("transport", "python")
    if not isinstance(transport, str):
        raise ValueError(f"[module] transport must be a string, got {transport!r}")
    described: dict[str, Any] = {"transport": transport, "module_type": module_type, "artifact_type": transport}
    grpc = parsed.get("grpc")
    artifacts = {
        "endpoint": grpc.get("endpoint") if isinstance(grpc, dict) else None,
        "artifact_path": module.get("artifact"),
        "crate_name": module.get("crate"),
        "package_name": module.get("artifact"),
    }
    name = _ARTIFACTS.get(transport)
    if name is not None:
        described[name] = artifacts[name]
    return described


def require_python(module_id: str, path: Path) -> None:
    """Raise TransportError unless the module at `path` is a Python one.

    A folder that describes no transport at all is left to validation, which says what is missing in it.
    """
    try:
        transport = detect_transport(path)["transport"]
    except RuntimeError:
        return
    if transport != "python":
        raise TransportError(
            f"Module '{module_id}' at {path} asks for transport '{transport}', but only 'python' is supported: "
            "provide the module as a Python package, or remove the transport from amplifier.toml"
        )
