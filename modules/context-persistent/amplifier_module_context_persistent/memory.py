"""Read memory files: texts that are part of every request of a session."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model, project_of

__all__ = ["memory_messages"]

logger = logging.getLogger(__name__)


def memory_messages(files: Iterable[str], base: Path, coordinator: Any) -> list[dict[str, Any]]:
    """Return one system message per file, headed with its name; paths are relative to `base`.

    A file that cannot be read, or that the session's rules keep from the model, is left out with a warning that names
    it.
    """
    messages: list[dict[str, Any]] = []
    project, denied = project_of(coordinator), denied_to_model(coordinator)
    for file in files:
        path = base / Path(file).expanduser()
        try:
            text = ConfiguredFile(path, project, denied).read().decode("utf-8-sig", errors="replace")
        except OSError as error:
            logger.warning("context-persistent: memory file %s is left out: %s", path, error)
            continue
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        messages.append(
            {
                "role": "system",
                "content": f"[Context from {path.name}]\n\n{text}",
                "metadata": {"source": "memory", "path": str(path)},
            }
        )
    return messages
