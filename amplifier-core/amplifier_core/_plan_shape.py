"""Check the outline of a mount plan before anything is loaded from it."""

from __future__ import annotations

from typing import Any

_SECTIONS = ("providers", "tools", "hooks")


def check_shape(config: dict[str, Any]) -> None:
    """Raise TypeError when a section of the plan is not what it must be, before anything is loaded."""
    for section in _SECTIONS:
        entries = config.get(section)
        if entries is None:
            continue
        if not isinstance(entries, (list, tuple)):
            raise TypeError(f"'{section}' section must be a list, got {type(entries).__name__}")
        for index, entry in enumerate(entries):
            path = f"{section}[{index}]"
            if not isinstance(entry, dict):
                hint = f": write {{'module': {entry!r}}} for the module of that id" if isinstance(entry, str) else ""
                raise TypeError(f"Module spec at {path} must be a dict, got {type(entry).__name__}{hint}")
            _check_entry(path, entry)
    for section in ("orchestrator", "context"):
        path = f"session.{section}"
        spec = (config.get("session") or {}).get(section)
        if isinstance(spec, dict):
            _check_entry(path, spec)
        elif spec is not None and not isinstance(spec, str):
            raise TypeError(f"Module spec at {path} must be a module's id or a dict, got {type(spec).__name__}")


def _check_entry(path: str, entry: dict[str, Any]) -> None:
    module, settings = entry.get("module"), entry.get("config")
    if module is not None and not isinstance(module, str):
        raise TypeError(f"Module path at {path} must be a string, got {type(module).__name__}")
    if settings is not None and not isinstance(settings, dict):
        raise TypeError(f"Config at {path} must be a dict, got {type(settings).__name__}")


def check_instances(entries: list[dict[str, Any]]) -> None:
    """Raise ValueError when two entries of one provider module could not be told apart."""
    unnamed: dict[str, int] = {}
    for entry in entries:
        if entry.get("module") and not entry.get("instance_id"):
            unnamed[entry["module"]] = unnamed.get(entry["module"], 0) + 1
    for module, count in unnamed.items():
        if count > 1:
            raise ValueError(
                f"Multi-instance providers require explicit 'instance_id' on each additional entry. "
                f"Found {count} entries for module '{module}' without instance_id "
                "(at most 1 allowed as the default instance)."
            )
