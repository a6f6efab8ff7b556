"""How universes begin and end: created, opened, destroyed, and pruned after a crash."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_digital_twin.engines.engine import LABEL_HOME, LABEL_ID, LABEL_USER, Engine
from amplifier_digital_twin.engines.select import all_engines, engine_named, select_engine
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.log import Log
from amplifier_digital_twin.processes import end_processes, processes_of
from amplifier_digital_twin.profile.load import Loaded, read_saved_profile
from amplifier_digital_twin.profile.model import Profile, parse_duration
from amplifier_digital_twin.state import Folder, Found, Home, State
from amplifier_digital_twin.universe import SNAPSHOT_IMAGE, Universe, identifier_of

Listener = Callable[[str], None]


def create(
    loaded: Loaded,
    home: Home,
    listener: Listener,
    *,
    name: str | None = None,
    base: str | None = None,
    backend: str | None = None,
    lease: str = "8h",
) -> Universe:
    """Choose the engine and make the universe's directory, held by this process. Raises TwinError."""
    profile = loaded.profile
    if base is not None:
        profile = profile.model_copy(update={"base": profile.base.model_copy(update={"image": base, "tar": None})})
    try:
        seconds = parse_duration(lease)
    except ValueError as error:
        raise TwinError("bad_argument", f"--lease {lease!r}: {error}", "write it like 30m, 8h or 2d") from error
    secrets = _secrets(profile)
    missing = [secret.env for secret in profile.secrets if not secret.optional and secret.env not in secrets]
    if missing:
        said = f"{loaded.path}: the profile needs {', '.join(missing)}, missing in the environment"
        raise TwinError("secret_missing", said, f"export {missing[0]}=...")
    engine, notes = select_engine(profile, backend)
    found = home.create(name=name, profile=profile.name, profile_path=loaded.path, lease=seconds)
    log = Log(found.folder.log, secrets.values(), listener)
    log.progress(f"universe {found.state.id}")
    for note in notes:
        log.progress(f"note: {note}")
    return Universe(found, home, profile, engine, secrets, log)


def open_universe(found: Found, home: Home, listener: Listener) -> Universe:
    """Return a universe that runs; raise TwinError when it is another user's, or dead."""
    found.refuse_foreign()
    if not found.state.is_alive or not found.state.engine:
        said = f"{found.state.id} does not run: its container, its launch or its lease has ended"
        remedy = f"`amplifier-digital-twin destroy {found.state.id}` removes what is left; `logs` shows what happened"
        raise TwinError("universe_dead", said, remedy)
    profile = read_saved_profile(found.folder.path / "profile.json")
    secrets = _secrets(profile)
    log = Log(found.folder.log, secrets.values(), listener)
    return Universe(found, home, profile, engine_named(found.state.engine), secrets, log)


def _secrets(profile: Profile) -> dict[str, str]:
    return {secret.env: os.environ[secret.env] for secret in profile.secrets if os.environ.get(secret.env)}


def destroy(found: Found, home: Home) -> None:
    """Remove a universe with everything that belongs to it, whatever state it is in. Raises TwinError."""
    found.refuse_foreign()
    with found.folder.held() as is_held:
        if not is_held:
            said = f"{found.state.id} is being removed by another process"
            raise TwinError("universe_busy", said, "wait for it, then look again")
        _remove(found.folder, found.state, home)


def _remove(folder: Folder, state: State, home: Home) -> None:
    for engine in [engine_named(state.engine)] if state.engine else _usable_engines():
        for container in engine.find(_labels(home) | {LABEL_ID: state.id}):
            engine.remove(container)
        for name in state.snapshots:
            engine.remove_image(SNAPSHOT_IMAGE.format(f"{state.id}-{name}"))
    end_processes([*([state.services] if state.services else []), *processes_of(folder.path)])
    # What the services ran themselves, and could not end any more.
    if left := end_processes(processes_of(folder.path)):
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
    removed: set[str] = set()
    universes, faults = home.find_all()
    failed = {str(path): error.record() for path, error in faults.items()}
    alive = {found.state.id for found in universes if found.state.is_alive}
    kept = alive | {found.state.id for found in universes if found.foreign_reason} | {path.name for path in faults}
    for found in universes:
        if found.state.id not in kept:
            try:
                destroy(found, home)
                removed.add(found.state.id)
            except TwinError as error:
                failed[found.state.id] = error.record()
                kept.add(found.state.id)
    for path in home.unfinished():
        shutil.rmtree(path, ignore_errors=True)
        removed.add(path.name)
    for engine in _usable_engines():
        # Containers of ours whose universe has no directory any more.
        for container in engine.find(_labels(home) | {LABEL_ID: ""}):
            identifier = identifier_of(container)
            if identifier not in kept and not (home.universes / identifier / "state.json").exists():
                engine.remove(container)
                removed.add(identifier)
    for pattern in ("wheels/.build-*", "bases/.make-*"):
        for path in home.cache.glob(pattern):
            if _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)
    return {"removed": sorted(removed), "kept": sorted(alive), "failed": failed}


def _is_abandoned(path: Path) -> bool:
    """Return whether no running process has made anything in a temporary directory for a while."""
    try:
        return time.time() - max(each.lstat().st_mtime for each in (path, *path.rglob("*"))) > 60
    except FileNotFoundError:
        return False  # its maker is still at work
