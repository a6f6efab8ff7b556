"""Read, write and edit files: whole or not at all, as they are written down, and only where that is allowed."""

from __future__ import annotations

from typing import Any

from amplifier_kit.guard.files import FileSettings, Workspace
from amplifier_module_tool_filesystem._edit import EditFile
from amplifier_module_tool_filesystem._read import ReadFile
from amplifier_module_tool_filesystem._write import WriteFile

__amplifier_module_type__ = "tool"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount `read_file`, `write_file` and `edit_file`.

    Raises ValueError that names the config key that is wrong.
    """
    workspace = Workspace(coordinator, FileSettings.from_config("tool-filesystem", config, coordinator))
    for tool in (ReadFile(workspace), WriteFile(workspace), EditFile(workspace)):
        await coordinator.mount("tools", tool, name=tool.name)
