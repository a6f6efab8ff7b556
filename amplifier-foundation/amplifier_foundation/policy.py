"""The rule an app starts with until somebody writes better ones: look around the project freely, ask for the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Keys under which tools name the place they look at.
_PATH_KEYS = ("file_path", "path", "directory")


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
    places = [arguments[key] for key in _PATH_KEYS if isinstance(arguments.get(key), str)]
    return all((root / place).resolve().is_relative_to(root) for place in places)
