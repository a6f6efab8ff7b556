"""Take writes of tools back: what a file was before each write is kept with the session, and can be put back.

The checkpoints of a session are one line of time. Restoring to one of them puts every file back that was written since,
and is itself a checkpoint, so that it can be taken back too. Several processes may use the checkpoints of one session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

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
#: The tool that checkpoints are made by when files are put back.
RESTORE = "restore"

_Listing = list


class CheckpointError(FoundationError):
    """A checkpoint cannot be made, or files cannot be put back."""

    code = "checkpoint_failed"


class CheckpointNotFoundError(CheckpointError):
    """The session has no such checkpoint."""

    code = "checkpoint_not_found"


class RestoreConflictError(CheckpointError):
    """Files were changed by somebody else, or cannot be put back: one line for each in `reasons`. Nothing was done."""

    code = "restore_conflict"

    def __init__(self, reasons: tuple[str, ...]) -> None:
        listed = "\n".join(f"  {reason}" for reason in reasons)
        super().__init__(
            f"nothing was put back, because of {_counted(len(reasons), 'file')}:\n{listed}\n"
            "Look at what would be lost. Restoring by force puts back what can be, and keeps what is there now as a "
            "checkpoint"
        )
        self.reasons = reasons


@dataclass(frozen=True)
class RestorePlan:
    """What restoring would do, as the files are now."""

    to: Checkpoint
    #: How the files will be that are to change; one that is absent will be removed.
    changes: tuple[FileState, ...]
    #: How those files are now.
    now: tuple[FileState, ...]
    #: What speaks against it, in readable lines: somebody else's changes, which `force` is for.
    conflicts: tuple[str, ...]
    #: What cannot be put back at all, in readable lines.
    impossible: tuple[str, ...]


@dataclass(frozen=True)
class Restored:
    """What was put back, and the checkpoint by which it can be taken back."""

    checkpoint: Checkpoint
    put_back: tuple[Path, ...]
    removed: tuple[Path, ...]
    #: Files that were left as they are although they were to be overwritten, in readable lines.
    left: tuple[str, ...] = ()


class Checkpoints:
    """Keep and put back the files that the tools of one session write."""

    def __init__(self, session_folder: Path, *, turn: int = 0, largest: int = LARGEST) -> None:
        """Use the checkpoints of a session; nothing is read or made yet.

        `turn` is written into every checkpoint; whoever runs the session sets it when a turn begins. Files of more than
        `largest` bytes are not copied.
        """
        self._session = session_folder
        self._folder = session_folder / FOLDER
        self._log = CheckpointLog(self._folder / "index.jsonl")
        self._store = CopyStore(self._folder / "files")
        self._largest = largest
        self._unfinished: dict[Path, list[str]] = {}
        #: The turn that runs.
        self.turn = turn

    # -- around every write --

    def before_write(
        self, path: Path | str, *, tool: str, tool_call_id: str | None = None, follow: bool = True
    ) -> Checkpoint:
        """Keep a file as it is now, or note that there is none; call it before the file is written.

        Where a link lies, the files it leads to are kept as well. With `follow` false the path is the true one, of a
        file that was reached already: what lies there is kept and nothing else, and a folder that is a link by now is
        an error. A file that is too large, and what is no file, is only
        noted: `before` says so. Raises CheckpointError when the copy cannot be made: then nothing can be taken back.
        """
        with self._alone(f"{path} cannot be kept before it is written"):
            places = route(path) if follow else [Path(path)]
            before = tuple(state_at(place, self._store, self._largest) for place in places)
            made = self._add(Checkpoint(self._log.next_id(), _now(), self.turn, tool, tool_call_id, before))
        self._unfinished.setdefault(made.before[0].path, []).append(made.id)
        return made

    def after_write(self, path: Path | str) -> None:
        """Note what the file is after the write, so that changes by others can be told from it.

        Call it also when the write has failed. Raises CheckpointError when it cannot be noted, and when `before_write`
        of this object was not called for it.
        """
        begun = self._unfinished.get(Path(path)) or self._unfinished.get(real_path(path))
        if not begun:
            raise CheckpointError(f"{path} was written without a checkpoint: call before_write first")
        with self._alone(f"what {path} is after the write cannot be noted"):
            known = self._log.checkpoints.get(begun[-1])
            if known is not None:
                after = tuple(state_at(state.path, None, self._largest) for state in known.before)
                self._log.complete(known.id, after)
        begun.pop()

    # -- looking --

    def list(self) -> _Listing[Checkpoint]:
        """Return all checkpoints, the oldest first; raises CheckpointError."""
        with _told(f"the checkpoints in {self._folder} cannot be read"):
            self._log.refresh()
        return list(self._log.checkpoints.values())

    @property
    def problems(self) -> _Listing[str]:
        """Return what could not be understood when the checkpoints were read last, in readable lines."""
        return list(self._log.problems)

    def plan(self, to: str) -> RestorePlan:
        """Return what `restore` would do now; nothing is changed. Raises CheckpointError."""
        self.list()
        with _told("the files cannot be compared"):
            return self._plan(self._found(to), None)

    def last_turn(self, turn: int | None = None) -> Checkpoint | None:
        """Return the first checkpoint of the newest turn that wrote and was not undone, None when there is none.

        With a number: the first one of that turn or a later one.
        """
        self.list()
        first: Checkpoint | None = None
        for one in self._log.live():
            is_part = one.turn >= turn if turn is not None else first is None or one.turn == first.turn
            if not is_part:
                break
            first = one
        return first

    # -- putting back --

    def restore(self, to: str, *, force: bool = False) -> Restored:
        """Put all files back that were written by a checkpoint or after it, as they were before it.

        That is a checkpoint too: restoring to it brings back what was there. Raises CheckpointNotFoundError;
        RestoreConflictError when somebody else has changed one of the files, or one cannot be put back, unless `force`;
        and CheckpointError when the disk refuses, saying how far it came.
        """
        with self._alone("the files cannot be put back"):
            plan = self._plan(self._found(to), self._store)
            if (plan.conflicts or plan.impossible) and not force:
                raise RestoreConflictError((*plan.conflicts, *plan.impossible))
            return self._carry_out(plan)

    def undo_last_turn(self, turn: int | None = None, *, force: bool = False) -> Restored | None:
        """Take back all writes since the last prompt, and with every further call those of the turn before.

        Which turn that is, is told by the checkpoints, or by `turn`: everything since that one began is taken back.
        Returns None when nothing was written. Raises as `restore` does.
        """
        first = self.last_turn(turn)
        return None if first is None else self.restore(first.id, force=force)

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
                    f"only {done} of {len(plan.changes)} could be put back: {_reason(error)}. "
                    f"Mend that and restore to {plan.to.id} again"
                ) from error
        gone = tuple(state.path for state in plan.changes if state.kind == "absent")
        back = tuple(state.path for state in plan.changes if state.kind != "absent")
        return Restored(made, back, gone, plan.impossible)

    def _plan(self, to: Checkpoint, store: CopyStore | None) -> RestorePlan:
        """Compare what was with what is; what is now is copied into the store, whatever its size, if there is one."""
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
        """Return, for every file that was written by a checkpoint or after it, what it was and all those writes."""
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
        """Keep other processes away from the checkpoints, know all that they have made, and tell what goes wrong."""
        if not self._session.is_dir():
            raise CheckpointError(f"{what}: there is no folder {self._session} of the session")
        with _told(what), locked(self._folder / "index.lock"):
            self._log.refresh()
            self._store.sweep()
            yield


@dataclass(frozen=True)
class _Write:
    """One write of one file: the checkpoint, and what the file was before and after, if that is known."""

    checkpoint: str
    before: FileState
    after: FileState | None


def _conflict(wanted: FileState, current: FileState, written: list[_Write]) -> str | None:
    """Return why putting a file back would lose what somebody else has written, None when it would not.

    The session's own are the content before its first write and after each of them. Whatever else was found before a
    write, or is found now, is somebody else's.
    """
    own = [wanted, *(write.after for write in written if write.after is not None)]
    unnoted = f"{wanted.path}: nobody has noted what it was after the write of checkpoint"
    for number, write in enumerate(written):
        if not any(write.before.has_same_content(one) for one in own):
            unknown = [earlier.checkpoint for earlier in written[:number] if earlier.after is None]
            if unknown:
                return f"{unnoted} {unknown[-1]}"
            return f"{wanted.path} was changed by somebody else before checkpoint {write.checkpoint}"
    if any(current.has_same_content(one) for one in own):
        return None
    last = written[-1]
    if last.after is None:
        return f"{unnoted} {last.checkpoint}"
    what = "deleted" if current.kind == "absent" else "changed"
    return f"{wanted.path} was {what} by somebody else after checkpoint {last.checkpoint}"


def _obstacle(wanted: FileState, current: FileState) -> str | None:
    """Return why a file cannot be put back whatever is wanted, None when nothing prevents it."""
    path = wanted.path
    if wanted.kind == "file" and not wanted.is_kept:
        return f"{path} had {wanted.size:,} bytes, too many to be kept"
    if not wanted.is_kept:
        return f"{path} was no regular file, which cannot be kept"
    if current.kind in ("folder", "other"):
        return f"{path} is a folder now" if current.kind == "folder" else f"{path} is no regular file any more"
    return None


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Tell what could not be done when the disk refuses."""
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


# -- checkpoint_log: Remember checkpoints in a file that only grows: one line for each, and one for what came of it. --


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
