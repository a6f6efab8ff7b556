"""All universes of one home: make the folder of a new one, list them, find one by what a user typed."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.identifiers import check_name, is_identifier, is_prefix_of, new_identifier
from amplifier_digital_twin.spreading import spread
from amplifier_digital_twin.state import Place, State
from amplifier_digital_twin.value import Value

#: Folders that are being made; they get their name when their state is written.
_UNFINISHED: Final = ".new-"
_ATTEMPTS: Final = 100


class Wish(NamedTuple):
    """What is known of a universe before it is made."""

    name: str | None
    profile: str
    profile_path: Path
    lease: float


class Found(NamedTuple):
    """A universe and where it is."""

    place: Place
    state: State

    @property
    def is_alive(self) -> bool:
        """Tell whether somebody keeps it."""
        return self.state.holder.is_alive

    @property
    def is_mine(self) -> bool:
        """Tell whether the state and all the folders say that it belongs to the user who asks."""
        return self.state.owner == os.geteuid() and not self.foreign_reason

    @property
    def foreign_reason(self) -> str:
        """Say why its folder, or one above it, cannot be trusted to be the user's who asks; else nothing."""
        folder = self.place.folder
        reasons = (foreign_reason(path) for path in (folder.parent.parent, folder.parent, folder))
        return next((reason for reason in reasons if reason), "")


class Listing(NamedTuple):
    """The universes of a home, and the folders that say nothing understandable: the fault of each."""

    universes: list[Found]
    faults: dict[Path, TwinError]


class Registry(Value):
    """The folder `<amplifier home>/digital-twin`."""

    folder: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None) -> Registry:
        """Return the user's; raises NoHomeError."""
        from amplifier_foundation.paths import amplifier_home

        return cls(amplifier_home(environ) / "digital-twin")

    @property
    def universes(self) -> Path:
        """Return the folder that has one folder per universe."""
        return self.folder / "universes"

    @property
    def cache(self) -> Path:
        """Return the folder of base systems, layers and downloads; it may be deleted when no universe lives."""
        return self.folder / "cache"

    @property
    def evidence(self) -> Path:
        """Return the folder of the evidence that was not asked for in another place."""
        return self.folder / "evidence"

    def create(self, wish: Wish) -> Found:
        """Make the folder of a new universe, held by this process; raise TwinError when the name is taken."""
        from amplifier_foundation.files import locked, make_private

        if wish.name is not None:
            check_name(wish.name)
        make_private(self.universes)
        for folder in (self.folder, self.universes):
            _take(folder)
            spread(folder)
        with locked(self.universes / ".lock"):
            self._refuse_taken(wish.name)
            identifier = self._free_identifier()
            now = time.time()
            holder = Holder.current()
            state = State(
                id=identifier,
                name=wish.name,
                profile=wish.profile,
                profile_path=str(wish.profile_path),
                owner=os.geteuid(),
                holder=holder,
                created=now,
                lease_until=now + wish.lease,
            )
            fresh = self.universes / f"{_UNFINISHED}{identifier}.{holder.pid}.{holder.ticks}"
            fresh.mkdir(mode=0o700)
            Place(fresh).write(state)
            place = Place(self.universes / identifier)
            fresh.rename(place.folder)
        return Found(place, state)

    def _refuse_taken(self, name: str | None) -> None:
        for found in self.all().universes if name is not None else ():
            if found.state.name == name:
                dead = not found.is_alive
                raise TwinError(
                    "name_taken",
                    f"there is a universe named {name!r} already: {found.state.id}{', which has crashed' * dead}",
                    "`amplifier-digital-twin prune --mine` removes it"
                    if dead
                    else f"choose another name, or `amplifier-digital-twin destroy {name}`",
                )

    def _free_identifier(self) -> str:
        for _ in range(_ATTEMPTS):
            identifier = new_identifier()
            if not (self.universes / identifier).exists():
                return identifier
        raise TwinError("identifiers_taken", f"{self.universes}: no identifier is free", "destroy some universes")

    def all(self) -> Listing:
        """Return all universes, the oldest first."""
        universes = []
        faults = {}
        for folder in self._folders():
            try:
                universes.append(Found(Place(folder), Place(folder).read()))
            except TwinError as error:
                # One that vanishes while this looks is no fault of anybody's.
                if folder.exists():
                    faults[folder] = error
        universes.sort(key=lambda found: (found.state.created, found.state.id))
        return Listing(universes, faults)

    def _folders(self) -> list[Path]:
        try:
            return sorted(path for path in self.universes.iterdir() if is_identifier(path.name))
        except FileNotFoundError:
            return []

    def unfinished(self) -> list[Path]:
        """Return the folders of universes whose making was interrupted: their makers have ended."""
        try:
            candidates = [path for path in self.universes.iterdir() if path.name.startswith(_UNFINISHED)]
        except FileNotFoundError:
            return []
        return [path for path in candidates if not _maker_lives(path.name)]

    def get(self, given: str) -> Found:
        """Return the universe of that identifier, name or unique start of an identifier; raise TwinError."""
        universes = self.all().universes
        for found in universes:
            if given in (found.state.id, found.state.name):
                return found
        matches = [found for found in universes if is_prefix_of(given, found.state.id)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(found.state.id for found in matches)
            raise TwinError("universe_ambiguous", f"{given!r} could be any of {listed}", "type more of the identifier")
        known = [found.state.name or found.state.id for found in universes]
        raise TwinError(
            "universe_unknown",
            f"there is no universe {given!r}",
            f"those that are there: {', '.join(known)}"
            if known
            else "there are none: `amplifier-digital-twin launch PROFILE` makes one",
        )


def foreign_reason(folder: Path) -> str:
    """Say why a folder is not one of the user who asks: it is a link, or another's; nothing when it is his."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return "it is gone"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is a link or a file"
    return "" if status.st_uid == os.geteuid() else f"it belongs to user {status.st_uid}"


def _take(folder: Path) -> None:
    """Close a folder to all others; raise TwinError when it is a link, or another user's."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "it is a link or a file" if error.errno in (errno.ENOTDIR, errno.ELOOP) else str(error.strerror)
        raise _unsafe(folder, why) from error
    try:
        owner = os.fstat(descriptor).st_uid
        if owner != os.geteuid():
            raise _unsafe(folder, f"it belongs to user {owner}")
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _unsafe(folder: Path, why: str) -> TwinError:
    return TwinError(
        "home_unsafe",
        f"{folder}: {why}: whoever made it could change what universes are made of",
        "remove it, or set AMPLIFIER_HOME to a folder of your own",
    )


def _maker_lives(folder_name: str) -> bool:
    *_, pid, ticks = folder_name.split(".")
    if not (pid.isdigit() and ticks.isdigit()):
        return False
    maker = Holder.of(int(pid))
    return maker is not None and maker.ticks == int(ticks)
