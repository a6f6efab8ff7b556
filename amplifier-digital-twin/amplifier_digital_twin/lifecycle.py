"""How universes begin and end: launch with cleanup, open one that runs, destroy, and prune what crashes left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_digital_twin.engines.engine import LABEL_HOME, LABEL_ID, LABEL_USER, Engine
from amplifier_digital_twin.engines.select import all_engines, engine_named, select_engine
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.log import Log
from amplifier_digital_twin.profile.load import read_saved_profile
from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.profile.quantities import parse_duration
from amplifier_digital_twin.secret_values import secret_values
from amplifier_digital_twin.service_process import end_processes, processes_of
from amplifier_digital_twin.state import Folder, Found, Home, State
from amplifier_digital_twin.universe import Universe

Listener = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What a user asks for when a universe is made."""

    profile: Profile
    name: str | None = None
    base: str | None = None
    backend: str | None = None
    lease: str = "8h"


def create(request: Request, home: Home, environ: Mapping[str, str], listener: Listener) -> Universe:
    """Choose the engine and make the universe's directory, held by this process. Raises TwinError."""
    profile = request.profile
    if request.base is not None:
        base = profile.base.model_copy(update={"image": request.base, "tar": None})
        profile = profile.model_copy(update={"base": base})
    try:
        lease = parse_duration(request.lease)
    except ValueError as error:
        said = f"--lease {request.lease!r}: {error}"
        raise TwinError("bad_argument", said, "write it like 30m, 8h or 2d") from error
    secrets = secret_values(profile, environ)
    engine, notes = select_engine(profile, request.backend)
    found = home.create(name=request.name, profile=profile.name, profile_path=profile.path, lease=lease)
    log = Log(found.folder.log, secrets.values(), listener)
    listener(f"universe {found.state.id}")
    for note in notes:
        log.progress(f"note: {note}")
    return Universe(found, home, profile, engine, environ, log)


def open_universe(found: Found, home: Home, environ: Mapping[str, str], listener: Listener) -> Universe:
    """Return a universe that runs; raise TwinError when it is another user's, or dead."""
    refuse_foreign(found)
    if not found.state.is_alive or not found.state.engine:
        raise TwinError(
            "universe_dead",
            f"{found.state.id} does not run: its container, its launch or its lease has ended",
            f"`amplifier-digital-twin destroy {found.state.id}` removes what is left; `logs` shows what happened",
        )
    profile = read_saved_profile(found.folder.path / "profile.json")
    available = {secret.env for secret in profile.secrets if environ.get(secret.env)}
    secrets = tuple(secret for secret in profile.secrets if secret.env in available)
    profile = profile.model_copy(update={"secrets": secrets})
    log = Log(found.folder.log, secret_values(profile, environ).values(), listener)
    return Universe(found, home, profile, engine_named(found.state.engine), environ, log)


def refuse_foreign(found: Found) -> None:
    """Raise TwinError unless a universe is the current user's."""
    if not found.is_mine:
        said = f"{found.state.id} belongs to user {found.state.owner}"
        if found.foreign_reason:
            said = f"{found.state.id}: {found.foreign_reason}"
        raise TwinError("not_yours", said, "ask its owner, or launch one")


def destroy(found: Found, home: Home) -> None:
    """Remove a universe with everything that belongs to it, whatever state it is in. Raises TwinError."""
    refuse_foreign(found)
    with found.folder.held() as is_held:
        if not is_held:
            said = f"{found.state.id} is being removed by another process"
            raise TwinError("universe_busy", said, "wait for it, then look again")
        _remove(found.folder, found.state, home)


def _remove(folder: Folder, state: State, home: Home) -> None:
    engines = [engine_named(state.engine)] if state.engine else _usable_engines()
    for engine in engines:
        for container in engine.find(_labels(home) | {LABEL_ID: state.id}):
            engine.remove(container.name)
        for name in state.snapshots:
            engine.remove_image(f"localhost/amplifier-twin/snapshot:{state.id}-{name}")
    left = end_processes([*state.processes, *processes_of(folder.path)])
    # What the services ran themselves, and could not end any more.
    if left := [*left, *end_processes(processes_of(folder.path))]:
        numbers = ", ".join(str(process.pid) for process in left)
        raise TwinError("destroy_failed", f"{state.id}: processes that cannot be ended: {numbers}", "try again")
    try:
        # The directory loses its name first: a removal that is killed leaves nothing that looks like a universe.
        last = folder.path.with_name(f".old-{folder.path.name}")
        if folder.sockets.exists():
            shutil.rmtree(folder.sockets)
        if folder.path.exists():
            folder.path.rename(last)
            shutil.rmtree(last)
    except OSError as error:
        raise TwinError("destroy_failed", f"{state.id}: {error}", "`prune --mine` tries again") from error


def _labels(home: Home) -> dict[str, str]:
    return {LABEL_HOME: str(home.path), LABEL_USER: str(os.geteuid())}


def _usable_engines() -> list[Engine]:
    return [engine for engine in all_engines().values() if engine.probe().is_available]


def prune(home: Home) -> dict[str, Any]:
    """Remove everything that crashed universes of this user and home left; return what was removed and what was not."""
    removed: list[str] = []
    failed: dict[str, dict[str, str]] = {}
    universes, faults = home.find_all()
    alive = {found.state.id for found in universes if found.state.is_alive}
    foreign = {found.state.id for found in universes if not found.is_mine}
    for found in universes:
        if found.state.id in alive | foreign:
            continue
        try:
            destroy(found, home)
            removed.append(found.state.id)
        except TwinError as error:
            failed[found.state.id] = error.record()
    for path in home.unfinished():
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path.name)
    kept = alive | foreign | set(failed) | {path.name for path in faults}
    removed += _remove_orphans(home, kept, failed)
    for path in _half_made(home):
        _remove_path(path)
    failed |= {str(path): error.record() for path, error in faults.items()}
    return {"removed": sorted(set(removed)), "kept": sorted(alive), "failed": failed}


def _remove_orphans(home: Home, kept: Iterable[str], failed: dict[str, dict[str, str]]) -> list[str]:
    """Remove containers of ours whose universe has no directory any more."""
    removed: list[str] = []
    for engine in _usable_engines():
        for container in engine.find(_labels(home) | {LABEL_ID: ""}):
            identifier = container.labels.get(LABEL_ID, "")
            if identifier in kept or (home.universes / identifier / "state.json").exists():
                continue
            try:
                engine.remove(container.name)
                removed.append(identifier)
            except TwinError as error:
                failed[identifier] = error.record()
    return removed


def _half_made(home: Home) -> list[Path]:
    """Return what killed processes began in the cache: whoever works on one holds the lock of its result."""
    return [path for pattern in ("wheels/.build-*", "bases/.make-*") for path in home.cache.glob(pattern)]


def _remove_path(path: Path) -> None:
    """Remove a temporary directory that no running process has made anything in for a while."""
    import time

    try:
        if time.time() - max(each.lstat().st_mtime for each in (path, *path.rglob("*"))) > 60:
            shutil.rmtree(path, ignore_errors=True)
    except FileNotFoundError:
        pass  # its maker is still at work
