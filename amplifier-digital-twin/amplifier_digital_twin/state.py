"""What is on disk about universes: who holds one, until when, and what must be removed when its holder is gone."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.processes import ProcessIdentity
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.files import FileBusyError, locked, make_private, replace_file
from amplifier_foundation.paths import amplifier_home

_PREFIX: Final = "dtu-"
_IDENTIFIER: Final = re.compile(r"dtu-[0-9a-f]{8}")
#: Fit for a host name and a container's name, too.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
#: A socket's path has at most 107 bytes.
_LONGEST_SOCKETS: Final = 90


def boot_id() -> str:
    """Return the id of the machine's current boot: process numbers mean nothing beyond it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def check_name(name: str) -> str:
    """Return a name that a user chose; raise TwinError for one that is unfit or looks like an identifier."""
    if not _NAME.fullmatch(name) or name.startswith(_PREFIX):
        said = f"invalid name {name!r} for a universe or snapshot"
        remedy = f"use up to 40 lower-case letters, digits and dashes, not starting with a dash or {_PREFIX!r}"
        raise TwinError("name_invalid", said, remedy)
    return name


class State(BaseModel):
    """One universe, as it was when this was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[3] = 3
    id: str
    name: str | None
    profile: str
    profile_path: Path
    #: User of the host to whom it belongs.
    owner: int
    #: The launching process at first; the container's first process once the universe is ready.
    holder: ProcessIdentity
    boot: str
    #: Seconds since the epoch.
    created: float
    lease_until: float
    phase: Literal["launching", "ready", "checking", "failed"] = "launching"
    engine: str = ""
    #: The process of the host that serves the universe.
    services: ProcessIdentity | None = None
    ports: tuple[dict[str, Any], ...] = ()
    snapshots: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether its holder runs and its lease is not over."""
        return self.boot == boot_id() and self.holder.is_running() and time.time() < self.lease_until


class Folder:
    """The directory of one universe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state_file = path / "state.json"
        #: The universe's own log.
        self.log = path / "log.jsonl"
        #: The log of what the services were asked for, and what they refused.
        self.requests = path / "requests.jsonl"
        #: The standard streams of the services, and what they are told.
        self.services_log = path / "services.log"
        self.services_config = path / "services.json"
        #: The directory that is mounted inside; in the temporary directory where its path would be too long.
        self.sockets = path / "run"
        if len(os.fsencode(self.sockets)) > _LONGEST_SOCKETS:
            self.sockets = Path(f"/tmp/amplifier-twin-{os.geteuid()}-{path.name}")

    def read(self) -> State:
        """Return the state; raise TwinError when there is none, or it is invalid."""
        try:
            return State.model_validate_json(self.state_file.read_bytes())
        except FileNotFoundError as error:
            remedy = "`amplifier-digital-twin list` shows those that exist"
            raise TwinError("universe_gone", f"{self.path}: no universe here", remedy) from error
        except (OSError, ValueError) as error:
            remedy = "nothing is touched: look at the directory and remove it yourself"
            raise TwinError("state_invalid", f"{self.state_file}: not a universe's state: {error}", remedy) from error

    def write(self, state: State) -> State:
        """Replace the state."""
        replace_file(self.state_file, state.model_dump_json(indent=1).encode())
        return state

    def update(self, **changes: Any) -> State:
        """Change some fields of the state; only its holder does that."""
        return self.write(self.read().model_copy(update=changes))

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the universe's lock while the block runs, and yield True; yield False when another process does."""
        try:
            with locked(self.path / "lock", timeout=0):
                yield True
        except FileBusyError:
            yield False


class Found(NamedTuple):
    """A universe and its directory."""

    folder: Folder
    state: State

    @property
    def foreign_reason(self) -> str:
        """Why it is not, or may not be, the current user's alone; empty when it is."""
        if self.state.owner != os.geteuid():
            return f"belongs to user {self.state.owner}"
        for path in (self.folder.path.parent.parent, self.folder.path.parent, self.folder.path):
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return f"{path} is not a directory of this user alone"
        return ""

    def refuse_foreign(self) -> None:
        """Raise TwinError unless the universe is the current user's."""
        if reason := self.foreign_reason:
            raise TwinError("not_yours", f"{self.state.id}: {reason}", "ask its owner, or launch one")


class Home:
    """The directory `<amplifier home>/digital-twin`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: One directory per universe.
        self.universes = path / "universes"
        #: Base systems, results of provisioning, wheels, downloads; may be deleted while nothing runs.
        self.cache = path / "cache"
        #: Evidence for which no other place was named.
        self.evidence = path / "evidence"

    @classmethod
    def of(cls) -> Home:
        """Return the user's."""
        return cls(amplifier_home(None) / "digital-twin")

    def create(self, *, name: str | None, profile: str, profile_path: Path, lease: float) -> Found:
        """Make the directory of a new universe, held by this process; raise TwinError when the name is taken."""
        make_private(self.universes)
        with locked(self.universes / ".lock"):
            if name is not None:
                self._refuse_taken(check_name(name))
            now = time.time()
            state = State(
                id=f"{_PREFIX}{secrets.token_hex(4)}",
                name=name,
                profile=profile,
                profile_path=profile_path,
                owner=os.geteuid(),
                holder=ProcessIdentity.of(os.getpid()),
                boot=boot_id(),
                created=now,
                lease_until=now + lease,
            )
            # A directory gets its name with its state in it: a crash leaves nothing that cannot be judged.
            fresh = Folder(self.universes / f".new-{state.id}")
            fresh.path.mkdir(mode=0o700)
            fresh.write(state)
            folder = Folder(self.universes / state.id)
            fresh.path.rename(folder.path)
        return Found(folder, state)

    def _refuse_taken(self, name: str) -> None:
        for found in self.find_all()[0]:
            if found.state.name == name:
                said = f"a universe is named {name!r} already: {found.state.id}"
                remedy = f"choose another name, or `amplifier-digital-twin destroy {name}`"
                raise TwinError("name_taken", said, remedy)

    def find_all(self) -> tuple[list[Found], dict[Path, TwinError]]:
        """Return all universes, the oldest first, and the directories whose state is invalid."""
        universes: list[Found] = []
        faults: dict[Path, TwinError] = {}
        for path in sorted(self.universes.iterdir()) if self.universes.is_dir() else ():
            if _IDENTIFIER.fullmatch(path.name) and Folder(path).state_file.exists():
                try:
                    universes.append(Found(Folder(path), Folder(path).read()))
                except TwinError as error:
                    if path.exists():  # else it was removed just now
                        faults[path] = error
        universes.sort(key=lambda found: (found.state.created, found.state.id))
        return universes, faults

    def unfinished(self) -> list[Path]:
        """Return directories that are no universe: of a creation or removal that was killed, or without a state.

        A universe gets its name with its state in it. One without was made again by a process that served a universe
        and was still at work when that was removed.
        """
        if not self.universes.is_dir():
            return []
        with locked(self.universes / ".lock"):
            nameless = [*self.universes.glob(".new-*"), *self.universes.glob(".old-*")]
            return nameless + [path for path in self.universes.glob("dtu-*") if not Folder(path).state_file.exists()]

    def find(self, given: str) -> Found:
        """Return the universe that a user named: an identifier, its unique start, or a name. Raises TwinError."""
        universes, faults = self.find_all()
        if (self.universes / given) in faults:
            raise faults[self.universes / given]
        named = [found for found in universes if given in (found.state.id, found.state.name)]
        starts = (given, f"{_PREFIX}{given}")
        matching = named or [found for found in universes if given and found.state.id.startswith(starts)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            ids = ", ".join(found.state.id for found in matching)
            raise TwinError("universe_ambiguous", f"{given!r} could be: {ids}", "type more of the identifier")
        known = [text for found in universes for text in (found.state.name, found.state.id) if text]
        hint = did_you_mean(given, known) if known else "there are no universes"
        raise TwinError("universe_unknown", f"no universe {given!r}: {hint}", "`amplifier-digital-twin list` shows all")
