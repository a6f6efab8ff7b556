"""What is known of a universe on disk: enough to find it, to reach it, and to remove what a crash left of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.value import Value
from amplifier_kit.guard.private_files import replace_file

Phase = Literal["starting", "launching", "ready", "failed", "destroying"]

_SCHEMA: Final = 1


class TwinPlace(NamedTuple):
    """A twin that exists or is about to: what its backend needs to remove it."""

    backend: str
    id: str
    folder: Path


class State(Value):
    """One universe, as it was when this was written."""

    id: str
    name: str | None
    profile: str
    #: Absolute path of the profile's file.
    profile_path: str
    #: User of the host to whom it belongs.
    owner: int
    #: Who keeps it: the program that starts it, then its keeper.
    holder: Holder
    #: Seconds since the epoch.
    created: float
    lease_until: float
    phase: Phase = "starting"
    backend: str | None = None
    #: Ports of the host: label or container port → host port.
    ports: tuple[dict[str, Any], ...] = ()
    #: Every twin, written before it is made.
    twins: tuple[TwinPlace, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "schema": _SCHEMA,
            **asdict(self),
            "holder": self.holder.record(),
            "ports": list(self.ports),
            "twins": [{"backend": twin.backend, "id": twin.id, "folder": str(twin.folder)} for twin in self.twins],
        }

    @classmethod
    def from_record(cls, value: Mapping[str, Any]) -> State:
        """Return what `record` wrote; raises KeyError, TypeError, ValueError for anything else."""
        if value["schema"] != _SCHEMA:
            raise ValueError(f"schema {value['schema']!r} is not {_SCHEMA}")
        return cls(
            id=str(value["id"]),
            name=value["name"],
            profile=str(value["profile"]),
            profile_path=str(value["profile_path"]),
            owner=int(value["owner"]),
            holder=Holder.from_record(value["holder"]),
            created=float(value["created"]),
            lease_until=float(value["lease_until"]),
            phase=value["phase"],
            backend=value["backend"],
            ports=tuple(value["ports"]),
            twins=tuple(TwinPlace(twin["backend"], twin["id"], Path(twin["folder"])) for twin in value["twins"]),
        )


class Place(Value):
    """The folder of one universe, and the files in it that have a meaning for others."""

    folder: Path

    @property
    def state_file(self) -> Path:
        """Return where the state is."""
        return self.folder / "state.json"

    @property
    def request(self) -> Path:
        """Return where the request is that the keeper fulfils."""
        return self.folder / "request.json"

    @property
    def socket(self) -> Path:
        """Return where the keeper listens."""
        return self.folder / "control.sock"

    @property
    def log(self) -> Path:
        """Return the universe's own log."""
        return self.folder / "log.jsonl"

    @property
    def decisions(self) -> Path:
        """Return the log of what the services let through and refused."""
        return self.folder / "decisions.jsonl"

    @property
    def keeper_log(self) -> Path:
        """Return what the keeper writes to its standard streams."""
        return self.folder / "keeper.log"

    @property
    def lock(self) -> Path:
        """Return the file that whoever keeps or removes the universe locks."""
        return self.folder / "lock"

    @property
    def cache(self) -> Path:
        """Return the folder that all universes of this home share."""
        return self.folder.parent.parent / "cache"

    def read(self) -> State:
        """Return the state; raise TwinError when there is none or it cannot be understood."""
        try:
            return State.from_record(json.loads(self.state_file.read_bytes()))
        except FileNotFoundError as error:
            raise TwinError(
                "universe_gone",
                f"{self.folder}: there is no universe here (any more)",
                "`amplifier-digital-twin list` shows those that are there",
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TwinError(
                "state_invalid",
                f"{self.state_file}: cannot be read as the state of a universe: {type(error).__name__}: {error}",
                "what it would prove is unknown, so nothing is touched: look at the folder and remove it by hand",
            ) from error

    def write(self, state: State) -> None:
        """Put a state in place of the one before, on the disk when this returns."""
        replace_file(self.state_file, json.dumps(state.record(), indent=1).encode(), is_forced=True)

    def update(self, **changes: Any) -> State:
        """Change some fields of the state; only the holder may do that. Returns the new state."""
        state = replace(self.read(), **changes)
        self.write(state)
        return state

    def add_twin(self, backend: str, identifier: str, folder: Path) -> None:
        """Write down a twin that is about to be made, so that it is removed even if nobody is left to do so."""
        state = self.read()
        twin = TwinPlace(backend, identifier, folder)
        if twin not in state.twins:
            self.write(replace(state, backend=state.backend or backend, twins=(*state.twins, twin)))

    def remove_twin(self, identifier: str) -> None:
        """Forget a twin that has been removed."""
        state = self.read()
        self.write(replace(state, twins=tuple(twin for twin in state.twins if twin.id != identifier)))

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the lock of the universe while the block runs, and yield True; yield False when another process does."""
        import fcntl

        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)
