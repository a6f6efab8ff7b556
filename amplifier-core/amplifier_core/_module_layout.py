"""Know the kinds of modules, and find a module's package in its folder."""

from __future__ import annotations

from pathlib import Path

TYPE_TO_MOUNT_POINT: dict[str, str] = {
    "orchestrator": "orchestrator",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
    "context": "context",
    "resolver": "module-source-resolver",
}
_KEYWORDS = (
    ("orchestrat", "orchestrator"),
    ("loop", "orchestrator"),
    ("provider", "provider"),
    ("tool", "tool"),
    ("hook", "hook"),
    ("context", "context"),
)


def find_package_dir(module_id: str, path: Path) -> Path | None:
    """Return the package folder of a module at `path`, or None."""
    if not path.exists():
        return None
    if (path / "__init__.py").exists():
        return path
    named = path / f"amplifier_module_{module_id.replace('-', '_')}"
    candidates = [named, *sorted(path.glob("amplifier_module_*"))]
    return next((package for package in candidates if (package / "__init__.py").exists()), None)


def guess_type(module_id: str) -> str:
    """Return the kind that a module's id suggests; a tool when it suggests none."""
    lowered = module_id.lower()
    return next((kind for keyword, kind in _KEYWORDS if keyword in lowered), "tool")
