"""Apply patches to files: all of a patch, or nothing of it."""

from __future__ import annotations

from typing import Any

from amplifier_kit.guard.files import FileSettings, Workspace
from amplifier_module_tool_apply_patch._tool import APPLIED, ENGINES, ApplyPatch

__amplifier_module_type__ = "tool"
__all__ = ["mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount `apply_patch` and say by capability `apply_patch.engine` in which form it takes patches.

    Raises ValueError that names the config key that is wrong.
    """
    engine = (config or {}).get("engine") or ENGINES[0]
    if engine not in ENGINES:
        raise ValueError(f"tool-apply-patch: config key 'engine' must be one of {', '.join(ENGINES)}, got {engine!r}")
    settings = FileSettings.from_config("tool-apply-patch", config, coordinator, other_keys=["engine"])
    tool = ApplyPatch(coordinator, Workspace(coordinator, settings), engine)
    await coordinator.mount("tools", tool, name=tool.name)
    coordinator.register_capability("apply_patch.engine", engine)
    coordinator.register_contributor("observability.events", "tool-apply-patch", lambda: [APPLIED])
