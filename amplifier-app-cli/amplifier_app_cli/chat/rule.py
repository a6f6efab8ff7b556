"""What a person allows for the rest of a session: exactly what was shown, and nothing wider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_PATH_KEYS: Final = ("file_path", "path", "file")


@dataclass(frozen=True)
class Rule:
    """Allow one tool one thing: any content for one file, or one input, letter by letter."""

    action: str
    tool: str
    project: Path
    #: The file, links followed; None when the rule is about an input.
    path: Path | None
    #: The input as JSON, in one order of keys.
    tool_input: str

    @classmethod
    def for_call(cls, action: str, details: Mapping[str, Any], project: Path) -> Rule:
        """Return the narrowest rule that would allow this call again."""
        given = details.get("tool_input")
        path = _file(given, project) if action.startswith("filesystem.") else None
        return cls(action, str(details.get("tool_name") or ""), project, path, "" if path else _canonical(details))

    def allows(self, action: str, details: Mapping[str, Any]) -> bool:
        """Tell whether this is what was allowed."""
        return self == Rule.for_call(action, details, self.project)

    def __str__(self) -> str:
        who = f"{self.tool or 'anyone'} may {self.action}"
        if self.path is None:
            return f"{who} with exactly this input"
        return f"{who} {_shown(self.path, self.project)}, whatever the content"


def _canonical(details: Mapping[str, Any]) -> str:
    given = details.get("tool_input", {key: value for key, value in details.items() if key != "tool_call_id"})
    return json.dumps(given, sort_keys=True, default=str)


def _file(given: Any, project: Path) -> Path | None:
    """Return the one file that an input names, None when that is not clear."""
    named = [given[key] for key in _PATH_KEYS if key in given] if isinstance(given, Mapping) else []
    if len(named) != 1 or not isinstance(named[0], str):
        return None
    try:
        return (project / Path(named[0]).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _shown(path: Path, project: Path) -> str:
    return str(path.relative_to(project)) if path.is_relative_to(project) else str(path)
