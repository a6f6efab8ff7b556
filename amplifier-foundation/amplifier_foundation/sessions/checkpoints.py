"""Take writes of tools back: what a file was before each write is kept with the session, and can be put back.

The checkpoints of a session are one line of time. Restoring to one of them puts every file back that was written since,
and is itself a checkpoint, so that it can be taken back too. Several processes may use the checkpoints of one session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked
from amplifier_foundation.sessions.checkpoint_log import Checkpoint, CheckpointLog
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
