"""Work a patch out in memory: every file as it would be, before any of them is changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from amplifier_kit.guard.files.changes import Change, check_writable
from amplifier_kit.guard.files.place import FileError, Place, Roots, discloses, read_content
from amplifier_kit.guard.files.text import Text, TextFormat, decode, encode
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_tool_apply_patch.patch import CurrentContent, Kind, Operation, patched


class Step(FrozenStruct):
    """An operation, and the places that it is about."""

    operation: Operation
    place: Place
    target: Place | None = None


class Effect(FrozenStruct):
    """What has happened to a file, for the one who asked."""

    letter: str
    name: str
    place: Place
    operation: Kind


class Note(FrozenStruct):
    """What was not quite as the patch said, which tells something of what the file holds."""

    path: Path
    text: str


class _File(Struct):
    """A file as it was, and as it is in the draft: None when there is none."""

    place: Place
    before: os.stat_result | None
    original: bytes | None
    data: bytes | None
    #: Of a file that was moved here.
    mode: int | None = None


class Draft:
    """The files of a patch, changed in memory only."""

    def __init__(self, reading: Roots, writing: Roots) -> None:
        self._reading = reading
        self._writing = writing
        self._files: dict[Path, _File] = {}
        self.effects: list[Effect] = []
        self.notes: list[Note] = []

    def add(self, step: Step) -> None:
        """Carry one operation out in memory; raises FileError that names the file."""
        operation = step.operation
        if operation.kind == "delete_file":
            self._delete(step)
        elif operation.kind == "create_file":
            self._create(step)
        else:
            self._update(step)

    def changes(self) -> list[Change]:
        """Return what has to change on the disk; removed files come last."""
        changes = [
            Change(file.place, file.before, file.data, file.original, file.mode)
            for file in self._files.values()
            if file.data != file.original or (file.data is None and file.before is not None)
        ]
        return sorted(changes, key=lambda change: change.content is None)

    def _file(self, place: Place) -> _File:
        known = self._files.get(place.path)
        if known is None:
            before = check_writable(place, self._writing)
            known = self._files[place.path] = _File(place, before, None, None)
            if before is not None and stat.S_ISREG(before.st_mode):
                content = read_content(place, self._reading)
                known.before, known.original, known.data = content.status, content.data, content.data
        return known

    def _create(self, step: Step) -> None:
        file = self._file(step.place)
        if file.data is not None:
            raise _exists(file)
        if file.original is None and file.before is not None:
            raise FileError("invalid_patch", f"{step.place.named} is deleted and made again; update it instead")
        lines = step.operation.lines
        text = "\n".join(lines) + ("\n" if lines and not step.operation.ends_open else "")
        file.data = encode(text, TextFormat(), step.place.named)
        self._tell("A", step, step.operation.path, step.place)

    def _delete(self, step: Step) -> None:
        place = step.place
        file = self._files.get(place.path)
        if file is None:
            # What is removed need not be readable, and a link goes without what it leads to.
            file = self._files[place.path] = _File(place, check_writable(place, self._writing), None, None)
            if file.before is None:
                raise FileError("not_found", f"{place.named} does not exist, so it cannot be deleted")
        elif file.data is None:
            raise FileError("not_found", f"{place.named} does not exist any more, so it cannot be deleted")
        file.data = None
        self._tell("D", step, step.operation.path, place)

    def _update(self, step: Step) -> None:
        operation, place = step.operation, step.place
        file = self._file(place)
        if file.data is None:
            raise FileError("not_found", f"{place.named} does not exist; create it instead of updating it")
        # What is only moved need not be text.
        data = file.data
        if operation.hunks:
            with discloses(place.path):
                data = self._patched(decode(file.data, place.named), step)
        target = step.target
        if target is None or target.path == place.path:
            with discloses(place.path):
                if data == file.data:
                    raise FileError("no_change", f"{place.named}: the patch changes nothing")
            file.data = data
            self._tell("M", step, operation.path, place)
            return
        moved = self._file(target)
        if moved.data is not None:
            raise _exists(moved)
        file.data, moved.data = None, data
        # A file that this patch has moved before has the mode it came with.
        moved.mode = file.mode if file.before is None else stat.S_IMODE(file.before.st_mode)
        assert operation.move_to is not None
        self._tell("D", step, operation.path, place)
        self._tell("A", step, operation.move_to, target)

    def _patched(self, source: Text, step: Step) -> bytes:
        name = step.place.named
        added = (text for hunk in step.operation.hunks for sign, text in hunk.lines if sign == "+")
        if not source.format.is_known and not all(text.isascii() for text in added):
            raise FileError(
                "unknown_encoding", f"{name} is not UTF-8, and its encoding is unknown: only ASCII can be added to it"
            )
        result = patched(source, name, step.operation.hunks)
        self.notes += [Note(step.place.path, text) for text in result.notes]
        return encode(result.text, source.format, name)

    def _tell(self, letter: str, step: Step, name: str, place: Place) -> None:
        self.effects.append(Effect(letter, name, place, step.operation.kind))


def _exists(file: _File) -> FileError:
    """Return the error for a file that was to be new."""
    try:
        text = decode(file.data or b"", file.place.named).text
    except FileError:
        text = "(binary)"
    error = CurrentContent(file.place.named, text.splitlines()).exists()
    error.disclosed_path = file.place.path
    error.without_content = f"{file.place.named} exists already; update it instead"
    return error
