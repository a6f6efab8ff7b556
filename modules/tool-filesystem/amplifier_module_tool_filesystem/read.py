"""`read_file`: lines of a file, or the entries of a folder."""

from __future__ import annotations

import stat
import threading
from typing import Any, ClassVar

from amplifier_core import ToolResult
from amplifier_kit.guard.files.place import FileError, Place, as_file_error, open_file
from amplifier_kit.guard.files.workspace import READ, Workspace
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_filesystem import inputs
from amplifier_module_tool_filesystem.folder import list_folder
from amplifier_module_tool_filesystem.lines import LONGEST_LINE, read_window
from amplifier_module_tool_filesystem.not_found import missing

__all__ = ["ReadFile"]

_OFFSET = 1
_LIMIT = 2000


class _Answer(NamedTuple):
    output: dict[str, Any]
    warning: str | None


class ReadFile:
    """Give a model the lines of a file."""

    name = "read_file"
    action = READ
    description = (
        "Read a text file with numbered lines, or list a folder. Paths are relative to the working directory, "
        "absolute, or @bundle:path. Long files are read in parts with offset and limit; lines of more than "
        f"{LONGEST_LINE} characters are cut. Line numbers and the tab after them are not part of the file."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Path of the file or folder, or @bundle:path"},
            "offset": {
                "type": "integer",
                "description": "Line to begin with, counted from 1",
                "minimum": 1,
                "default": _OFFSET,
            },
            "limit": {"type": "integer", "description": "How many lines to read", "minimum": 1, "default": _LIMIT},
        },
        "required": ["file_path"],
    }

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Read the file and emit `artifact:read`; what goes wrong is in the result."""
        try:
            path = inputs.path(input)
            offset = inputs.number(input, "offset", _OFFSET)
            limit = inputs.number(input, "limit", _LIMIT)
            place = await self._workspace.reach(self._workspace.call(self.name, self.action, input), path)
            answer = await run_stoppable(lambda stop: self._answer(place, offset, limit, stop))
        except FileError as error:
            return inputs.failure(error)
        await self._workspace.announce_read(place.path, len(answer.output["content"].encode("utf-8", "replace")))
        return ToolResult(output={**answer.output, **({"warning": answer.warning} if answer.warning else {})})

    def _answer(self, place: Place, offset: int, limit: int, stop: threading.Event) -> _Answer:
        roots = self._workspace.settings.reading
        with place:
            status = place.status()
            if status is None:
                raise missing(place, is_hidden=self._workspace.hiding(self.name, place))
            if stat.S_ISDIR(status.st_mode):
                listing = list_folder(place, roots, self._workspace.hiding(self.name, place))
                folder = {"file_path": place.named, "content": listing.content, "is_directory": True}
                return _Answer({**folder, "entry_count": listing.entry_count}, listing.warning)
            with open_file(place, roots) as file, as_file_error(f"{place.named} cannot be read"):
                window = read_window(file, place.named, offset, limit, stop)
        output = {
            "file_path": place.named,
            "content": window.content,
            "total_lines": window.total,
            "lines_read": len(window.lines),
            "offset": offset,
        }
        return _Answer(output, " ".join(window.notes) or None)
