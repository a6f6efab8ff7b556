"""Checkpoints: before a tool writes a file, its state is stored with the session, and can be restored.

The checkpoints of a session are in order of time. Restoring one restores every file that was written since, and is
itself a checkpoint, so that it can be undone. Several processes may use the checkpoints of one session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, make_private
from amplifier_foundation.sessions.file_states import (
    LARGEST,
    CopyStore,
    FileState,
    PathChangedError,
    Restoration,
    real_path,
    route,
    state_at,
)
from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointLog",
    "CheckpointNotFoundError",
    "Checkpoints",
    "FileState",
    "RestoreConflictError",
    "RestorePlan",
    "Restored",
]

FOLDER = "checkpoints"
#: The tool name of checkpoints that were made by restoring.
RESTORE = "restore"
#: Emitted when the last turn was undone, with the files that were restored; and when only files were restored.
SESSION_UNDO = "session:undo"
SESSION_RESTORE = "session:restore"

_Listing = list


class CheckpointError(FoundationError):
    """A checkpoint cannot be made or restored."""

    code = "checkpoint_failed"


class CheckpointNotFoundError(CheckpointError):
    """The session does not have this checkpoint."""

    code = "checkpoint_not_found"


class RestoreConflictError(CheckpointError):
    """Other programs changed files, or files cannot be restored: `reasons` has a line for each. Nothing was done."""

    code = "restore_conflict"

    def __init__(self, reasons: tuple[str, ...]) -> None:
        listed = "\n".join(f"  {reason}" for reason in reasons)
        super().__init__(
            f"nothing was restored, because of {_counted(len(reasons), 'file')}:\n{listed}\n"
            "Look at what would be lost. Restoring by force restores what is possible, and keeps the current files as "
            "a checkpoint"
        )
        self.reasons = reasons


class RestorePlan(NamedTuple):
    """What restoring would do now."""

    to: Checkpoint
    #: The new states of the files that would change; an absent one would be deleted.
    changes: tuple[FileState, ...]
    #: Their current states.
    now: tuple[FileState, ...]
    #: Changes of other programs that would be lost without `force`, as text.
    conflicts: tuple[str, ...]
    #: Files that cannot be restored, as text.
    impossible: tuple[str, ...]


class Restored(NamedTuple):
    """What was restored, and the checkpoint to undo it."""

    checkpoint: Checkpoint
    put_back: tuple[Path, ...]
    removed: tuple[Path, ...]
    #: Files that could not be restored, as text.
    left: tuple[str, ...] = ()

    def to_event(self) -> dict[str, Any]:
        """Return what events say of it."""
        return {
            "checkpoint": self.checkpoint.id,
            "restored_to": self.checkpoint.restored_to,
            "put_back": [str(path) for path in self.put_back],
            "removed": [str(path) for path in self.removed],
            "left": list(self.left),
        }


class Checkpoints:
    """Store and restore the files that the tools of one session write."""

    def __init__(self, session_folder: Path, *, turn: int = 0, largest: int = LARGEST) -> None:
        """Use the checkpoints of a session; nothing is read or created yet.

        `turn` is written into every checkpoint; the runtime sets it when a turn begins. Files of more than `largest`
        bytes are not copied.
        """
        self._session = session_folder
        self._folder = session_folder / FOLDER
        self._log = CheckpointLog(self._folder / "index.jsonl")
        self._store = CopyStore(self._folder / "files")
        self._largest = largest
        self._unfinished: dict[Path, list[str]] = {}
        #: The running turn.
        self.turn = turn

    # -- around every write --

    def before_write(
        self, path: Path | str, *, tool: str, tool_call_id: str | None = None, follow: bool = True
    ) -> Checkpoint:
        """Store the current state of a file, which may be missing; call it before the file is written.

        For a link, the files it leads to are stored too. With `follow` false, `path` is resolved already: only that
        file is stored, and a folder that has become a link is an error. Large files and other kinds of files are
        recorded without a copy. Raises CheckpointError if the copy cannot be made.
        """
        with self._alone(f"no checkpoint of {path} can be made before it is written"):
            places = route(path) if follow else [Path(path)]
            before = tuple(state_at(place, self._store, self._largest) for place in places)
            made = self._add(Checkpoint(self._log.next_id(), _now(), self.turn, tool, tool_call_id, before))
        self._unfinished.setdefault(made.before[0].path, []).append(made.id)
        return made

    def after_write(self, path: Path | str) -> None:
        """Record the state of the file after the write, to distinguish it from changes of other programs.

        Call it also when the write has failed. Raises CheckpointError if it cannot be recorded, or `before_write` was
        not called for the file.
        """
        begun = self._unfinished.get(Path(path)) or self._unfinished.get(real_path(path))
        if not begun:
            raise CheckpointError(f"{path} was written without a checkpoint: call before_write first")
        with self._alone(f"the state of {path} after the write cannot be recorded"):
            known = self._log.checkpoints.get(begun[-1])
            if known is not None:
                after = tuple(state_at(state.path, None, self._largest) for state in known.before)
                self._log.complete(known.id, after)
        begun.pop()

    # -- reading --

    def list(self) -> _Listing[Checkpoint]:
        """Return all checkpoints, the oldest first; raises CheckpointError."""
        with _wrap_errors(f"the checkpoints in {self._folder} cannot be read"):
            self._log.refresh()
        return list(self._log.checkpoints.values())

    @property
    def problems(self) -> _Listing[str]:
        """Lines that were invalid when the checkpoints were read last, as text."""
        return list(self._log.problems)

    def plan(self, to: str) -> RestorePlan:
        """Return what `restore` would do now; nothing is changed. Raises CheckpointError."""
        self.list()
        with _wrap_errors("the files cannot be compared"):
            return self._plan(self._found(to), None)

    def last_turn(self, turn: int | None = None) -> Checkpoint | None:
        """Return the first checkpoint of the newest turn that wrote files and was not undone; None without one.

        With `turn`: the first one of that turn or a later one. Restoring it undoes all writes since.
        """
        self.list()
        first: Checkpoint | None = None
        for one in self._log.live():
            is_part = one.turn >= turn if turn is not None else first is None or one.turn == first.turn
            if not is_part:
                break
            first = one
        return first

    # -- restoring --

    def restore(self, to: str, *, force: bool = False) -> Restored:
        """Restore all files that were written by a checkpoint or after it to their state before it.

        That is a checkpoint too: restoring it undoes this. Raises CheckpointNotFoundError; RestoreConflictError if
        another program has changed one of the files, or one cannot be restored, unless `force`; and CheckpointError
        if writing fails, with the number of files that were restored.
        """
        with self._alone("the files cannot be restored"):
            plan = self._plan(self._found(to), self._store)
            if (plan.conflicts or plan.impossible) and not force:
                raise RestoreConflictError((*plan.conflicts, *plan.impossible))
            return self._carry_out(plan)

    def _carry_out(self, plan: RestorePlan) -> Restored:
        with Restoration(plan.changes, self._store) as prepared:
            made = self._add(
                Checkpoint(
                    self._log.next_id(),
                    _now(),
                    self.turn,
                    RESTORE,
                    None,
                    plan.now,
                    plan.changes,
                    restored_to=plan.to.id,
                )
            )
            try:
                prepared.go()
            except OSError as error:
                done = _counted(len(prepared.done), "file")
                raise CheckpointError(
                    f"only {done} of {len(plan.changes)} could be restored: {_reason(error)}. "
                    f"Repair that and restore {plan.to.id} again"
                ) from error
        gone = tuple(state.path for state in plan.changes if state.kind == "absent")
        back = tuple(state.path for state in plan.changes if state.kind != "absent")
        return Restored(made, back, gone, plan.impossible)

    def _plan(self, to: Checkpoint, store: CopyStore | None) -> RestorePlan:
        """Compare the stored states with the current ones; with a store, copy the current ones, whatever their size."""
        changes: list[FileState] = []
        now: list[FileState] = []
        conflicts: list[str] = []
        impossible: list[str] = []
        for wanted, written in self._written_since(to).values():
            try:
                current = state_at(wanted.path, None, self._largest)
                if current.is_same(wanted):
                    continue
                if store is not None:
                    current = state_at(wanted.path, store, None)
            except PathChangedError as error:
                impossible.append(_reason(error))
                continue
            if (obstacle := _obstacle(wanted, current)) is not None:
                impossible.append(obstacle)
                continue
            if (conflict := _conflict(wanted, current, written)) is not None:
                conflicts.append(conflict)
            changes.append(wanted)
            now.append(current)
        return RestorePlan(to, tuple(changes), tuple(now), tuple(conflicts), tuple(impossible))

    def _written_since(self, to: Checkpoint) -> dict[Path, tuple[FileState, _Listing[_Write]]]:
        """Return the state of each file that was written by a checkpoint or after it, and all those writes."""
        found: dict[Path, tuple[FileState, list[_Write]]] = {}
        has_begun = False
        for one in self._log.checkpoints.values():
            has_begun = has_begun or one.id == to.id
            if has_begun:
                after = {state.path: state for state in one.after or ()}
                for state in one.before:
                    written = found.setdefault(state.path, (state, []))[1]
                    written.append(_Write(one.id, state, after.get(state.path)))
        return found

    def _found(self, checkpoint_id: str) -> Checkpoint:
        known = self._log.checkpoints
        if checkpoint_id in known:
            return known[checkpoint_id]
        hint = f"it has {next(iter(known))} to {next(reversed(known))}" if known else "the session has written no files"
        raise CheckpointNotFoundError(f"there is no checkpoint {checkpoint_id!r} in {self._folder}: {hint}")

    def _add(self, checkpoint: Checkpoint) -> Checkpoint:
        self._log.add(checkpoint)
        return self._log.checkpoints[checkpoint.id]

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Lock the checkpoints, read those of other processes, and raise CheckpointError for what fails."""
        if not self._session.is_dir():
            raise CheckpointError(f"{what}: the folder of the session, {self._session}, is missing")
        with _wrap_errors(what), locked(self._folder / "index.lock"):
            self._log.refresh()
            self._store.sweep()
            yield


class _Write(NamedTuple):
    """One write of one file: its checkpoint and states; `after` is None if it was not recorded."""

    checkpoint: str
    before: FileState
    after: FileState | None


def _conflict(wanted: FileState, current: FileState, written: list[_Write]) -> str | None:
    """Return why restoring a file would lose what another program has written, None if it would not.

    The session's own are the content before its first write and after each write. All other content that was found
    before a write, or is found now, was written by another program.
    """
    own = [wanted, *(write.after for write in written if write.after is not None)]
    unrecorded = f"{wanted.path}: its state after checkpoint"
    for number, write in enumerate(written):
        if not any(write.before.has_same_content(one) for one in own):
            unknown = [earlier.checkpoint for earlier in written[:number] if earlier.after is None]
            if unknown:
                return f"{unrecorded} {unknown[-1]} was not recorded"
            return f"{wanted.path} was changed by another program before checkpoint {write.checkpoint}"
    if any(current.has_same_content(one) for one in own):
        return None
    last = written[-1]
    if last.after is None:
        return f"{unrecorded} {last.checkpoint} was not recorded"
    what = "deleted" if current.kind == "absent" else "changed"
    return f"{wanted.path} was {what} by another program after checkpoint {last.checkpoint}"


def _obstacle(wanted: FileState, current: FileState) -> str | None:
    """Return why a file cannot be restored, even by force; None if it can."""
    path = wanted.path
    if wanted.kind == "file" and not wanted.is_kept:
        return f"{path} had {wanted.size:,} bytes, too many to store"
    if not wanted.is_kept:
        return f"{path} was not a regular file, which cannot be stored"
    if current.kind in ("folder", "other"):
        return f"{path} is a folder now" if current.kind == "folder" else f"{path} is no longer a regular file"
    return None


@contextmanager
def _wrap_errors(what: str) -> Iterator[None]:
    """Raise CheckpointError, with what could not be done, for an OSError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{what}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return f"{error.strerror or error} ({error.filename})" if error.filename else str(error.strerror or error)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _now() -> datetime:
    return datetime.now(UTC)


# -- the log of checkpoints --


_FORM = 1


class Checkpoint(NamedTuple):
    """The states of files before a write, and after it once it is done."""

    id: str
    made: datetime
    turn: int
    tool: str
    tool_call_id: str | None
    #: The file and, if it is a link, the files it leads to.
    before: tuple[FileState, ...]
    #: The same paths after the write; None until it is done.
    after: tuple[FileState, ...] | None = None
    #: The restored checkpoint, if this one was made by restoring.
    restored_to: str | None = None
    #: Whether a later one has undone it.
    is_undone: bool = False

    @property
    def path(self) -> Path | None:
        """The file that was written; None for a restore without changes."""
        return self.before[0].path if self.before else None


class CheckpointLog:
    """The checkpoints of one session in order of time, in a file to which lines are appended.

    A line is a checkpoint, or the states after its write. Callers that read and then append hold a lock.
    """

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which the first line creates."""
        self._path = path
        self._read_until = 0
        self._is_torn = False
        #: All, undone or not, by id in order of time.
        self.checkpoints: dict[str, Checkpoint] = {}
        #: The newest one that was not undone, and which one that was before each of them.
        self._newest: str | None = None
        self._before: dict[str, str | None] = {}
        #: Invalid lines, as text.
        self.problems: list[str] = []

    def refresh(self) -> None:
        """Read the lines that were added since the last call; raises OSError."""
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._read_until:
                    self._reset()  # the file was replaced
                file.seek(self._read_until)
                content = file.read()
        except FileNotFoundError:
            self._reset()
            return
        whole, end, torn = content.rpartition(b"\n")
        self._is_torn = bool(torn)
        self._read_until += len(whole) + len(end)
        for line in whole.splitlines():
            self._take(line)

    def live(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints that were not undone, the newest first."""
        current = self._newest
        while current is not None:
            yield self.checkpoints[current]
            current = self._before[current]

    def next_id(self) -> str:
        """Return the id of the next checkpoint."""
        return f"c{len(self.checkpoints) + 1}"

    def add(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint and flush it to the disk; raises OSError, and then it was not made."""
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
        """Append the states of a checkpoint's files after the write; raises OSError."""
        now = datetime.now(UTC).isoformat()
        record = {"form": _FORM, "of": checkpoint_id, "made": now, "after": [state.to_record() for state in after]}
        self._append(record, is_safe=False)

    def _append(self, record: dict[str, Any], *, is_safe: bool) -> None:
        # ASCII, so that file names that are not UTF-8 are read back as they were.
        line = json.dumps(record).encode() + b"\n"
        if self._is_torn:  # by a process that died; the rest of its line stays as an invalid line
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

    def _reset(self) -> None:
        self._read_until, self._is_torn = 0, False
        self.checkpoints.clear()
        self._newest = None
        self._before.clear()
        self.problems.clear()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = json.loads(line)
            if record["form"] != _FORM:
                raise ValueError(f"it has version {record['form']!r}, this program has version {_FORM}")
            if "of" in record:
                known = self.checkpoints[record["of"]]
                self.checkpoints[known.id] = known._replace(after=_states(record["after"]))
            else:
                self._take_new(_checkpoint(record))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.problems.append(f"{self._path}: a line was left out, {type(error).__name__}: {error}: {line[:60]!r}")

    def _take_new(self, checkpoint: Checkpoint) -> None:
        if checkpoint.id in self.checkpoints:
            raise ValueError(f"there are two checkpoints {checkpoint.id}")
        target = checkpoint.restored_to
        newest = checkpoint.id if target is None else self._before[target]
        self._before[checkpoint.id] = self._newest
        self.checkpoints[checkpoint.id] = checkpoint
        self._newest = newest
        if target is not None:
            self._mark_undone()

    def _mark_undone(self) -> None:
        counted = {one.id for one in self.live()}
        for one in list(self.checkpoints.values()):
            is_undone = one.id not in counted and one.restored_to is None
            if is_undone != one.is_undone:
                self.checkpoints[one.id] = one._replace(is_undone=is_undone)


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
