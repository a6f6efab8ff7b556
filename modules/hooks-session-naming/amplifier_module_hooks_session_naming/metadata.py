"""Read and write what a session is called: through the app, else in the file where the published program keeps it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.files.configured_file import project_of
from amplifier_kit.guard.private_files import replace_file
from amplifier_kit.home import TEMPLATE, amplifier_home, log_path

__all__ = ["naming_of"]

#: The capability of an app that keeps names itself: `facts()` and `set(name, description)`.
CAPABILITY: Final = "session.naming"


def naming_of(coordinator: Any) -> Any:
    """Return what reads and sets the name of a session."""
    known = coordinator.get_capability(CAPABILITY)
    return known if known is not None else MetadataFile(coordinator)


class MetadataFile:
    """The file `metadata.json` of a session."""

    def __init__(self, coordinator: Any) -> None:
        project = project_of(coordinator)
        log = log_path(TEMPLATE, home=amplifier_home(), project=project, session_id=str(coordinator.session_id))
        self._file: Path = log.with_name("metadata.json")

    def facts(self) -> dict[str, Any]:
        """Return the metadata; the running turn counts, which the published program adds when it has ended."""
        data = self._read()
        turns = data.get("turn_count")
        return {**data, "turn_count": (turns if isinstance(turns, int) else 0) + 1}

    def set(self, name: str | None, description: str) -> str | None:
        """Set name and description, and return the name; raises OSError."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        changes = {"description": description, "description_updated_at": now}
        if name is not None:
            changes |= {"name": name, "name_generated_at": now}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self._read(), **changes}, ensure_ascii=False, indent=2)
        replace_file(self._file, text.encode("utf-8", "backslashreplace"))
        return name

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        if not isinstance(data, dict):
            raise ValueError(f"{self._file} is damaged: it is not a JSON object")
        return data
