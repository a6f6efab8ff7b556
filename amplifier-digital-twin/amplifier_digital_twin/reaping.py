"""Remove universes that nobody keeps any more: only what their state proves is ours, and all of that."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import MARK_VARIABLE
from amplifier_digital_twin.registry import Found, Registry, foreign_reason
from amplifier_digital_twin.removal import open_folders, remove_tree
from amplifier_digital_twin.state import Place, State

_OWN_FILES: Final = ("state.json", "lock")


class Pruned(NamedTuple):
    """What came of it: removed, left with the reason, and what should have gone but could not."""

    removed: list[str]
    kept: dict[str, str]
    failed: dict[str, dict[str, str]]


async def prune(registry: Registry) -> Pruned:
    """Remove every universe of this user whose keeper has ended, whatever it left; never touch any other."""
    pruned = Pruned([], {}, {})
    listing = registry.all()
    for found in listing.universes:
        try:
            reason = await reap(found)
        except Exception as error:
            # Whatever it is, one universe is no reason to leave the others.
            pruned.failed[found.state.id] = _record(error)
        else:
            if reason is None:
                pruned.removed.append(found.state.id)
            else:
                pruned.kept[found.state.id] = reason
    for folder, fault in listing.faults.items():
        if reason := foreign_reason(folder):
            pruned.kept[folder.name] = reason
        elif not _remove_if_empty(folder):
            pruned.failed[folder.name] = fault.record()
    for folder in registry.unfinished():
        try:
            if not foreign_reason(folder):
                _remove(folder)
        except Exception as error:
            pruned.failed[folder.name] = _record(error)
    try:
        await _sweep(registry)
    except Exception as error:
        pruned.failed[registry.cache.name] = _record(error)
    return pruned


async def _sweep(registry: Registry) -> None:
    """Remove what crashed keepers were making in the cache, when that is the user's who asks."""
    from amplifier_digital_twin.embedded.asides import abandoned, sweep

    if foreign_reason(registry.folder) or foreign_reason(registry.cache):
        return
    if left := abandoned(registry.cache):
        await sweep(left)


async def reap(found: Found) -> str | None:
    """Remove a universe that nobody keeps; return why it is left alone. Raises TwinError, OSError."""
    if not found.place.folder.exists():
        return None
    if reason := _not_mine(found):
        return reason
    try:
        return await _reap_held(found)
    except FileNotFoundError:
        if found.place.folder.exists():
            raise
        return None  # somebody was faster


async def _reap_held(found: Found) -> str | None:
    with found.place.held() as is_held:
        # Looked at again under the lock: somebody may have been faster.
        if not found.place.state_file.exists():
            _remove_if_empty(found.place.folder)
            return None
        state = found.place.read()
        if reason := _not_mine(Found(found.place, state)):
            return reason
        holder = state.holder
        if not is_held or (holder.is_alive and holder.pid != os.getpid()):
            return f"process {holder.pid} keeps it"
        await clear(found.place)
    return None


def _not_mine(found: Found) -> str:
    """Say why a universe is not the user's who asks; nothing when its state and its folders all say that it is."""
    if found.state.owner != os.geteuid():
        return f"it belongs to user {found.state.owner}"
    return found.foreign_reason


async def clear(place: Place) -> None:
    """Remove all of a universe: stray processes, twins, then the folder. For whoever holds its lock.

    Raises TwinError when something stays; the state stays then, too, so that it can be tried again.
    """
    try:
        state = place.read()
    except TwinError as error:
        if error.code == "universe_gone":
            _remove_if_empty(place.folder)
            return
        raise
    end_processes(state.id)
    await _remove_twins(state)
    _remove_folder(place)


async def _remove_twins(state: State) -> None:
    if not state.twins:
        return
    from amplifier_digital_twin.backends.select import all_backends

    backends = all_backends()
    for twin in state.twins:
        backend = backends.get(twin.backend)
        if backend is None:
            raise TwinError(
                "backend_unknown",
                f"{state.id}: it was made by {twin.backend!r}, which this release does not know",
                "remove it with the release that made it",
            )
        _refuse_foreign(twin.folder)
        await backend.remove(twin.folder, twin.id)


def _refuse_foreign(folder: Path) -> None:
    if os.path.lexists(folder) and (reason := foreign_reason(folder)):
        raise TwinError("not_yours", f"{folder}: {reason}, so it is not touched", "look at it, and remove it by hand")


def end_processes(identifier: str) -> None:
    """Kill what a keeper started on the host and left: a build or a download would go on without it."""
    mark = f"{MARK_VARIABLE}={identifier}".encode()
    for pid in _own_processes():
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Read after it was opened: what is killed is what was read.
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            pass  # it has ended, or it is not ours to look at, and so not ours
        finally:
            os.close(handle)


def _own_processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                yield int(name)
        except FileNotFoundError:
            pass


def _remove_folder(place: Place) -> None:
    """Remove everything in the folder, the state last: a crash on the way leaves something to go on with."""
    try:
        for entry in place.folder.iterdir():
            if entry.name not in _OWN_FILES:
                _remove(entry)
        for name in _OWN_FILES:
            (place.folder / name).unlink(missing_ok=True)
        place.folder.rmdir()
    except FileNotFoundError:
        pass  # gone: what was wanted
    except OSError as error:
        raise TwinError(
            "remove_failed",
            f"{error.filename or place.folder}: {error.strerror or error}: it stays behind",
            "`amplifier-digital-twin prune --mine` tries again; else remove the folder by hand",
        ) from error


def _remove(entry: Path) -> None:
    """Remove a file or a tree; folders that are closed to their owner are opened when it does not go otherwise."""
    try:
        remove_tree(entry)
    except OSError:
        if entry.is_symlink() or not entry.is_dir():
            raise
        open_folders(entry)
        remove_tree(entry)


def _remove_if_empty(folder: Path) -> bool:
    """Remove a folder of ours that has nothing in it but a lock; tell whether it is gone."""
    try:
        if folder.lstat().st_uid != os.geteuid() or any(entry.name != "lock" for entry in folder.iterdir()):
            return False
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _record(error: Exception) -> dict[str, Any]:
    if isinstance(error, TwinError):
        return error.record()
    if isinstance(error, OSError):
        return {"code": "os_error", "message": str(error), "remedy": "see to it that the folder can be removed"}
    return {
        "code": "internal",
        "message": f"{type(error).__name__}: {error}",
        "remedy": "report it; the folder can be removed by hand",
    }
