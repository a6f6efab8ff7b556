"""The rule an app starts with until somebody writes better ones: look around the project freely, ask for the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Keys under which tools name the places they look at.
_PATH_KEYS = ("file_path", "path", "paths", "file", "files", "directory", "dir", "root", "cwd", "working_dir")
#: ... and those under which tools that match file names do; elsewhere they hold text to search for.
_PATTERN_KEYS = ("pattern", "patterns", "glob")


def project_policy(project: Path) -> Callable[[str, dict[str, Any]], tuple[str, str]]:
    """Return a policy that allows reads inside `project` and asks for everything else."""
    root = project.resolve()

    def decide(action: str, details: dict[str, Any]) -> tuple[str, str]:
        if action == "filesystem.read" and _inside(root, details):
            return "allow", "reading inside the project is allowed"
        return "ask", f"no rule allows {action}"

    return decide


def _inside(root: Path, details: dict[str, Any]) -> bool:
    given = details.get("tool_input")
    arguments = given if isinstance(given, dict) else details
    matches_names = "glob" in str(details.get("tool_name", "")).lower()
    keys = (*_PATH_KEYS, *_PATTERN_KEYS) if matches_names else _PATH_KEYS
    places = [place for key in keys if key in arguments for place in _listed(arguments[key])]
    return all(_is_below(root, place) for place in places)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_below(root: Path, place: Any) -> bool:
    """Tell whether a place lies in the project, links followed; what cannot be understood does not."""
    if not isinstance(place, str):
        return False
    try:
        return (root / Path(place).expanduser()).resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        return False
