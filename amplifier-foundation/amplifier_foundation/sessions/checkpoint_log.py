"""Remember checkpoints in a file that only grows: one line for each, and one for what came of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.files import make_private
from amplifier_foundation.sessions.file_states import FileState

__all__ = ["Checkpoint", "CheckpointLog"]

_FORM = 1


@dataclass(frozen=True)
class Checkpoint:
    """What some files were before they were written, and what they were after it, once that is known."""

    id: str
    made: datetime
    #: The turn of the session it was made in, as its caller counts them.
    turn: int
    tool: str
    tool_call_id: str | None
    #: The file, and when a link lies there, the places it leads to.
    before: tuple[FileState, ...]
    #: The same paths after the write; None as long as nobody has said that it was done.
    after: tuple[FileState, ...] | None = None
    #: For a checkpoint that was made by restoring: the one that was restored to.
    restored_to: str | None = None
    #: Whether a later one has taken it back.
    is_undone: bool = False

    @property
    def path(self) -> Path | None:
        """Return the file that was written, None when a restore had nothing to change."""
        return self.before[0].path if self.before else None


class _Live(NamedTuple):
    """A checkpoint that counts, and those before it."""

    id: str
    earlier: _Live | None


class CheckpointLog:
    """Hold the checkpoints of one session, in the order they were made.

    For one process at a time: whoever reads and then appends holds a lock meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which is made by the first line."""
        self._path = path
        self._read_until = 0
        self._is_torn = False
        #: All, undone or not, by id in the order they were made.
        self.checkpoints: dict[str, Checkpoint] = {}
        self._live: _Live | None = None
        #: What counted before each of them: the tails of one list, so that many cost little.
        self._live_before: dict[str, _Live | None] = {}
        #: Lines that could not be understood, in readable words.
        self.problems: list[str] = []

    def refresh(self) -> None:
        """Read what was added since the last time; raises OSError."""
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._read_until:
                    self._forget()  # somebody has put another file in its place
                file.seek(self._read_until)
                content = file.read()
        except FileNotFoundError:
            self._forget()
            return
        whole, end, torn = content.rpartition(b"\n")
        self._is_torn = bool(torn)
        self._read_until += len(whole) + len(end)
        for line in whole.splitlines():
            self._take(line)

    def live(self) -> Iterator[Checkpoint]:
        """Yield those that count, the newest first: what was undone is not among them."""
        node = self._live
        while node is not None:
            yield self.checkpoints[node.id]
            node = node.earlier

    def next_id(self) -> str:
        """Return the id of the next checkpoint."""
        return f"c{len(self.checkpoints) + 1}"

    def add(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint and see that it is on the disk; raises OSError, and then it was not made."""
        record: dict[str, Any] = {
            "form": _FORM,
            "id": checkpoint.id,
            "made": checkpoint.made.isoformat(),
            "turn": checkpoint.turn,
            "tool": checkpoint.tool,
            "tool_call_id": checkpoint.tool_call_id,
            "before": [state.to_record() for state in checkpoint.before],
        }
        if checkpoint.restored_to is not None:
            record["restored_to"] = checkpoint.restored_to
        if checkpoint.after is not None:
            record["after"] = [state.to_record() for state in checkpoint.after]
        self._append(record, is_safe=True)

    def complete(self, checkpoint_id: str, after: tuple[FileState, ...]) -> None:
        """Append what the files of a checkpoint were after the write; raises OSError."""
        now = datetime.now(UTC).isoformat()
        record = {"form": _FORM, "of": checkpoint_id, "made": now, "after": [state.to_record() for state in after]}
        self._append(record, is_safe=False)

    def _append(self, record: dict[str, Any], *, is_safe: bool) -> None:
        # ASCII, so that names of files that are no UTF-8 come back as they were.
        line = json.dumps(record).encode() + b"\n"
        if self._is_torn:  # by a process that died; that part of a line stays, on a line of its own
            line = b"\n" + line
        make_private(self._path.parent)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                self._is_torn = True
                raise OSError(28, "only a part of the line could be written", str(self._path))
            if is_safe:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.refresh()

    # -- reading --

    def _forget(self) -> None:
        self._read_until, self._is_torn = 0, False
        self.checkpoints.clear()
        self._live = None
        self._live_before.clear()
        self.problems.clear()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = json.loads(line)
            if record["form"] != _FORM:
                raise ValueError(f"it has form {record['form']!r}, this program knows form {_FORM}")
            if "of" in record:
                known = self.checkpoints[record["of"]]
                self.checkpoints[known.id] = replace(known, after=_states(record["after"]))
            else:
                self._take_new(_checkpoint(record))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.problems.append(f"{self._path}: a line was left out, {type(error).__name__}: {error}: {line[:60]!r}")

    def _take_new(self, checkpoint: Checkpoint) -> None:
        if checkpoint.id in self.checkpoints:
            raise ValueError(f"there are two checkpoints {checkpoint.id}")
        target = checkpoint.restored_to
        live = _Live(checkpoint.id, self._live) if target is None else self._live_before[target]
        self._live_before[checkpoint.id] = self._live
        self.checkpoints[checkpoint.id] = checkpoint
        self._live = live
        if target is not None:
            self._mark_undone()

    def _mark_undone(self) -> None:
        counted = {one.id for one in self.live()}
        for one in list(self.checkpoints.values()):
            is_undone = one.id not in counted and one.restored_to is None
            if is_undone != one.is_undone:
                self.checkpoints[one.id] = replace(one, is_undone=is_undone)


def _checkpoint(record: dict[str, Any]) -> Checkpoint:
    return Checkpoint(
        id=str(record["id"]),
        made=datetime.fromisoformat(record["made"]),
        turn=int(record["turn"]),
        tool=str(record["tool"]),
        tool_call_id=record["tool_call_id"],
        before=_states(record["before"]),
        after=_states(record["after"]) if "after" in record else None,
        restored_to=record.get("restored_to"),
    )


def _states(records: list[dict[str, Any]]) -> tuple[FileState, ...]:
    return tuple(FileState.from_record(record) for record in records)
