"""`write_file`: the whole content of a file, new or replaced."""

from __future__ import annotations

import codecs
import os
import threading
from typing import Any, ClassVar

from amplifier_core import ToolResult
from amplifier_kit.guard.files.changes import Change, check_writable, exclusive_access
from amplifier_kit.guard.files.place import FileError, Place, Roots, as_file_error, discloses, open_file
from amplifier_kit.guard.files.text import TextFormat, encode, is_binary, newline_of, sniff
from amplifier_kit.guard.files.workspace import WRITE, FileCall, Workspace, Written
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_filesystem import inputs

__all__ = ["WriteFile"]

#: Bytes of the old content that are examined for its format.
_SAMPLE = 1 << 20


class _Encoded(NamedTuple):
    content: bytes
    #: Notes that reveal something of the old content.
    notes: list[str]


class _Done(NamedTuple):
    notes: list[str]
    warnings: list[str]


class WriteFile:
    """Let a model write a file."""

    name = "write_file"
    action = WRITE
    description = (
        "Write a whole file: a new one, with the folders it needs, or in place of an existing one. Either the whole "
        "content is there afterwards or nothing has changed. Encoding and line ends of an existing file are kept. "
        "Use edit_file to change parts of a file."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Path of the file, or @bundle:path"},
            "content": {"type": "string", "description": "The whole content of the file"},
        },
        "required": ["file_path", "content"],
    }

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Write the file and emit `artifact:write`; failures are results."""
        written: list[Written] = []
        call = self._workspace.call(self.name, self.action, input)
        try:
            path = inputs.path(input)
            content = inputs.text(input, "content")
            if path.rpartition("/")[2] in ("", "."):
                raise FileError("is_directory", f"{path} names a folder, not a file")
            place = await self._workspace.reach(call, path)
            done = await run_stoppable(lambda stop: self._write(call, place, content, written, stop))
        except FileError as error:
            return inputs.failure(await self._workspace.disclosable(call, error))
        finally:
            # Also when the call was cancelled just after the file had changed.
            await self._workspace.announce_written(written)
        output: dict[str, Any] = {"file_path": place.named, "bytes": written[0].bytes}
        is_shown = bool(done.notes) and await self._workspace.unreadable(call, place.path) is None
        warnings = [*(done.notes if is_shown else ()), *done.warnings]
        return ToolResult(output={**output, **({"warning": " ".join(warnings)} if warnings else {})})

    def _write(
        self, call: FileCall, place: Place, content: str, written: list[Written], stop: threading.Event
    ) -> _Done:
        with place, exclusive_access:
            before = check_writable(place, self._workspace.settings.writing)
            with discloses(place.path):
                form = _encode_like(place, before, content)
            warnings = []
            if before is not None and (names := before.st_nlink) > 1:
                warnings.append(f"The file had {names} names (hard links); only this one has the new content.")
            warnings += self._workspace.write(call, [Change(place, before, form.content)], written, stop)
            return _Done(form.notes, warnings)


def _encode_like(place: Place, before: os.stat_result | None, content: str) -> _Encoded:
    """Return the bytes to write, in the format of the present file, and notes about it."""
    if before is None:
        return _Encoded(encode(content, TextFormat(), place.named), [])
    with open_file(place, Roots()) as file, as_file_error(f"{place.named} cannot be read"):
        sample = file.read(_SAMPLE)
    if is_binary(sample):
        return _Encoded(encode(content, TextFormat(), place.named), ["A binary file was replaced by text."])
    encoding, mark = sniff(sample)
    newline, is_mixed = newline_of(sample[len(mark) :].decode(encoding, "replace"))
    form = TextFormat(encoding, mark, newline, is_mixed)
    notes: list[str] = []
    if mark:
        content = content.removeprefix("\ufeff")
        notes.append(f"The encoding of the file ({encoding.upper()} with byte order mark) was kept.")
    elif not content.isascii() and not _can_be_utf8(sample):
        notes.append("The file was not UTF-8 but of an older encoding, which is not known; it is UTF-8 now.")
    if newline != "\n" and not is_mixed and "\n" in content and "\r" not in content:
        content = content.replace("\n", newline)
        name = "CRLF" if form.is_crlf else "CR"
        notes.append(f"The line ends of the file ({name}) were kept.")
    return _Encoded(encode(content, form, place.named), notes)


def _can_be_utf8(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True
