"""Read, write and edit files: whole or not at all, as they are written down, and only where that is allowed."""

from __future__ import annotations

from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_kit.guard.files.workspace import FileAccess, FileConfig, Workspace
from amplifier_module_tool_filesystem.edit import EditFile
from amplifier_module_tool_filesystem.read import ReadFile
from amplifier_module_tool_filesystem.write import WriteFile

__amplifier_module_type__ = "tool"
CONFIG: Final = FileConfig
__all__ = ["CONFIG", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount `read_file`, `write_file` and `edit_file`.

    Raises ConfigError that names every wrong config key.
    """
    read = read_config(FileConfig, config, module="tool-filesystem")
    workspace = Workspace(coordinator, FileAccess.of(read, coordinator))
    for tool in (ReadFile(workspace), WriteFile(workspace), EditFile(workspace)):
        await coordinator.mount("tools", tool, name=tool.name)
