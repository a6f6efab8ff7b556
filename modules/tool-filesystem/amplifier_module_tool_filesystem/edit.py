"""`edit_file`: replace text in a file."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from amplifier_core import ToolResult
from amplifier_kit.guard.files.changes import Change, check_writable, exclusive_access
from amplifier_kit.guard.files.place import FileError, Place, discloses, read_content
from amplifier_kit.guard.files.text import decode, encode
from amplifier_kit.guard.files.workspace import WRITE, FileCall, Workspace, Written
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_filesystem import inputs
from amplifier_module_tool_filesystem.match import edit
from amplifier_module_tool_filesystem.not_found import missing

__all__ = ["EditFile"]


class _Replacement(NamedTuple):
    old: str
    new: str
    replace_all: bool


class _Done(NamedTuple):
    replacements: int
    #: Notes that reveal something of the content.
    notes: list[str]
    warnings: list[str]


class EditFile:
    """Let a model replace text in a file."""

    name = "edit_file"
    action = WRITE
    description = (
        "Replace old_string by new_string in a file. old_string must be in the file exactly once, so add lines around "
        "it where needed, or set replace_all. Copy it from the file, white space included, without line numbers. "
        "Encoding and line ends of the file are kept."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Path of the file, or @bundle:path"},
            "old_string": {"type": "string", "description": "The text to replace"},
            "new_string": {"type": "string", "description": "The text to put there"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence", "default": False},
        },
        "required": ["file_path", "old_string", "new_string"],
    }

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Edit the file and emit `artifact:write`; failures are results."""
        written: list[Written] = []
        call = self._workspace.call(self.name, self.action, input)
        try:
            path = inputs.path(input)
            replacement = _replacement(input)
            place = await self._workspace.reach(call, path)
            done = await run_stoppable(lambda stop: self._edit(call, place, replacement, written, stop))
        except FileError as error:
            return inputs.failure(await self._workspace.disclosable(call, error))
        finally:
            # Also when the call was cancelled just after the file had changed.
            await self._workspace.announce_written(written)
        output: dict[str, Any] = {
            "file_path": place.named,
            "replacements_made": done.replacements,
            "bytes_written": written[0].bytes,
        }
        is_shown = bool(done.notes) and await self._workspace.unreadable(call, place.path) is None
        warnings = [*(done.notes if is_shown else ()), *done.warnings]
        return ToolResult(output={**output, **({"warning": " ".join(warnings)} if warnings else {})})

    def _edit(
        self, call: FileCall, place: Place, replacement: _Replacement, written: list[Written], stop: threading.Event
    ) -> _Done:
        settings = self._workspace.settings
        with place, exclusive_access:
            if check_writable(place, settings.writing) is None:
                hidden = self._workspace.hiding(self.name, place)
                raise missing(place, "Use write_file to make a new file.", hidden)
            content = read_content(place, settings.reading)
            with discloses(place.path):
                source = decode(content.data, place.named)
                if not source.format.is_known and not replacement.new.isascii():
                    raise FileError(
                        "unknown_encoding",
                        f"{place.named} is not UTF-8, and its encoding is unknown: new_string can be nothing but ASCII",
                    )
                edited = edit(
                    source, place.named, replacement.old, replacement.new, replace_all=replacement.replace_all
                )
                data = encode(edited.text, source.format, place.named)
                if data == content.data:
                    raise FileError(
                        "no_change", f"{place.named} would stay as it is: only line ends differ, which are kept"
                    )
            warnings = []
            if (names := content.status.st_nlink) > 1:
                warnings.append(f"The file had {names} names (hard links); only this one was changed.")
            change = Change(place, content.status, data, content.data)
            warnings += self._workspace.write(call, [change], written, stop)
            return _Done(edited.replacements, edited.notes, warnings)


def _replacement(tool_input: dict[str, Any]) -> _Replacement:
    replacement = _Replacement(
        inputs.text(tool_input, "old_string"),
        inputs.text(tool_input, "new_string"),
        inputs.flag(tool_input, "replace_all"),
    )
    if not replacement.old:
        raise FileError("invalid_input", "old_string is empty; use write_file to write a whole file")
    if replacement.old == replacement.new:
        raise FileError("no_change", "old_string and new_string are the same")
    return replacement
