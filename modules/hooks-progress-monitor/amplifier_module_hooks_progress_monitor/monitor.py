"""Count what a session reads between two changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from amplifier_core.models import HookResult
from amplifier_kit.config import Config, Count
from amplifier_kit.reminders import fitting_reminder, without_tags

__all__ = ["NAME", "ProgressConfig", "ProgressMonitor"]

NAME: Final = "hooks-progress-monitor"
_READS: Final = frozenset({"read_file", "grep", "glob", "web_fetch", "web_search"})
_WRITES: Final = frozenset({"write_file", "edit_file"})
_FILE: Final = "read_file"
_LONGEST_PATH: Final = 200


class ProgressConfig(Config):
    """The config keys of the module."""

    read_threshold: Count = Field(30, description="Reads without a change after which the model is told.")
    same_file_threshold: Count = Field(
        3, description="Reads of one file without a change of it after which it is told."
    )
    warning_interval: Count = Field(15, description="Further reads until it is told again.")


class ProgressMonitor:
    """Watch one session."""

    def __init__(self, settings: ProgressConfig, limit: int | None = None) -> None:
        """`limit` is the longest text that the session lets a hook inject."""
        self._settings = settings
        self._limit = limit
        self._reads = 0
        self._files: Counter[str] = Counter()

    def on_tool_post(self, event: str, data: Any) -> HookResult | None:
        """Count a call, and append a reminder to its result when one is due."""
        given = data if isinstance(data, Mapping) else {}
        name, path = given.get("tool_name"), _path(given.get("tool_input"))
        if name in _WRITES:
            self._reads = 0
            self._files.pop(path, None)
            return None
        if name not in _READS:
            return None
        self._reads += 1
        texts = [self._of_reads()]
        if name == _FILE and path:
            self._files[path] += 1
            texts.append(self._of_file(path))
        text = fitting_reminder("\n".join(text for text in texts if text), NAME, self._limit)
        if text is None:
            return None
        return HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role="user",
            ephemeral=True,
            append_to_last_tool_result=True,
        )

    def _of_reads(self) -> str:
        if not self._is_due(self._reads, self._settings.read_threshold):
            return ""
        return (
            f"{self._reads} reads and searches in a row without a change. If you know enough, act: make the change, or "
            "tell the user what you found and what you need. If you do not, say to yourself what exactly is missing."
        )

    def _of_file(self, path: str) -> str:
        count = self._files[path]
        if not self._is_due(count, self._settings.same_file_threshold):
            return ""
        shown = without_tags(path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…")
        return f"{shown} was read {count} times since it was changed last: its content is in the conversation already."

    def _is_due(self, count: int, threshold: int) -> bool:
        return count >= threshold and (count - threshold) % self._settings.warning_interval == 0


def _path(tool_input: Any) -> str:
    path = tool_input.get("file_path") if isinstance(tool_input, Mapping) else None
    return path if isinstance(path, str) else ""
