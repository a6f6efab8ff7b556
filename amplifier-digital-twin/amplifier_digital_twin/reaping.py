"""Remove universes that nobody keeps any more: only what their state proves is ours, and all of that."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found, Registry
from amplifier_digital_twin.state import Place, State

#: In the environment of a keeper and of all that it starts on the host.
MARK_VARIABLE: Final = "AMPLIFIER_DIGITAL_TWIN_KEEPER"
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
        except (TwinError, OSError) as error:
            pruned.failed[found.state.id] = _record(error)
        else:
            if reason is None:
                pruned.removed.append(found.state.id)
            else:
                pruned.kept[found.state.id] = reason
    for folder, fault in listing.faults.items():
        owner = folder.lstat().st_uid if folder.exists() else os.geteuid()
        if owner != os.geteuid():
            pruned.kept[folder.name] = f"it belongs to user {owner}"
        elif not _remove_if_empty(folder):
            pruned.failed[folder.name] = fault.record()
    for folder in registry.unfinished():
        if folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder)
    return pruned


async def reap(found: Found) -> str | None:
    """Remove a universe that nobody keeps; return why it is left alone. Raises TwinError, OSError."""
    if not found.place.folder.exists():
        return None
    if not found.is_mine:
        return f"it belongs to user {found.state.owner}"
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
        holder = found.place.read().holder
        if not is_held or (holder.is_alive and holder.pid != os.getpid()):
            return f"process {holder.pid} keeps it"
        await clear(found.place)
    return None


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
        await backend.remove(twin.folder, twin.id)


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
    if entry.is_dir() and not entry.is_symlink():
        _make_enterable(entry)
        for folder, names, _ in os.walk(entry):
            for name in names:
                _make_enterable(Path(folder, name))
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _make_enterable(folder: Path) -> None:
    """Let the owner into a folder; overlay file systems leave some without any permission."""
    if folder.is_symlink():
        return
    try:
        if folder.stat().st_mode & 0o700 != 0o700:
            folder.chmod(0o700)
    except (FileNotFoundError, PermissionError):
        pass  # whether it can be removed all the same is seen when it is tried


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
    return {"code": "os_error", "message": str(error), "remedy": "see to it that the folder can be removed"}
