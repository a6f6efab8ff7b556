"""Apply patches to files: all of a patch, or nothing of it."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from amplifier_kit.config import read_config
from amplifier_kit.guard.files.workspace import FileAccess, FileConfig, Workspace
from amplifier_module_tool_apply_patch.tool import APPLIED, ApplyPatch, Engine

__amplifier_module_type__ = "tool"
__all__ = ["CONFIG", "PatchConfig", "mount"]


class PatchConfig(FileConfig):
    """The keys of all tools on files, and the form of patches."""

    engine: Engine = Field("native", description="The form of patches that the tool takes.")

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Tell whether a value leaves a key at its default."""
        return value is None or (key == "engine" and value == "")


CONFIG: Final = PatchConfig


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount `apply_patch` and say by capability `apply_patch.engine` in which form it takes patches.

    Raises ConfigError that names every wrong config key.
    """
    read = read_config(PatchConfig, config, module="tool-apply-patch")
    tool = ApplyPatch(coordinator, Workspace(coordinator, FileAccess.of(read, coordinator)), read.engine)
    await coordinator.mount("tools", tool, name=tool.name)
    coordinator.register_capability("apply_patch.engine", read.engine)
    coordinator.register_contributor("observability.events", "tool-apply-patch", lambda: [APPLIED])
