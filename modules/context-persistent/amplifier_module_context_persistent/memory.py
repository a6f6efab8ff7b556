"""Read memory files: texts that are part of every request of a session."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

__all__ = ["memory_messages"]

logger = logging.getLogger(__name__)


def memory_messages(files: Any, base: Path) -> list[dict[str, Any]]:
    """Return one system message per file, headed with its name; paths are relative to `base`.

    A file that cannot be read is left out with a warning that names it. Raises ValueError for anything but a list of
    paths.
    """
    if files is None:
        return []
    if not isinstance(files, (list, tuple)) or not all(isinstance(file, (str, Path)) and str(file) for file in files):
        raise ValueError(f"context-persistent: config memory_files must be a list of paths, got {files!r}")
    messages: list[dict[str, Any]] = []
    for file in files:
        path = base / Path(file).expanduser()
        try:
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            logger.warning("context-persistent: memory file %s is left out: %s", path, error)
            continue
        messages.append(
            {
                "role": "system",
                "content": f"[Context from {path.name}]\n\n{text}",
                "metadata": {"source": "memory", "path": str(path)},
            }
        )
    return messages
