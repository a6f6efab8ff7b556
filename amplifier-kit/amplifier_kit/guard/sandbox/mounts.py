"""Lay out what is to be seen inside: which folders, which of them can be written, what is hidden in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from amplifier_kit.guard.control_files import GuardedPath, guarded_in
from amplifier_kit.guard.processes.programs import is_below, leaves_by_link
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import FolderOutsideError, LedOutError
from amplifier_kit.guard.sandbox.mount_check import mount_points
from amplifier_kit.guard.sandbox.placeholders import Placeholder, is_placeholder, is_unwanted
from amplifier_kit.guard.sandbox.protected_paths import SECRETS, STARTED
from amplifier_kit.guard.sandbox.sockets import listening_sockets
from amplifier_kit.guard.sandbox.system_paths import (
    FOLDERS,
    can_write,
    etc_files,
    is_too_wide,
    linked_folders,
    place_of,
    tool_folders,
)

#: What is done at a place; of two things at the same place the later one in this list holds.
_FRESH, _READ, _WRITE, _GUARD, _HIDE = range(5)

_RESOLVER: Final = "/etc/resolv.conf"


class _Mount(NamedTuple):
    kind: int
    source: str


class Scene(NamedTuple):
    """For what a view is made."""

    #: The writable folder, with links followed.
    project: str
    #: Where to run.
    folder: str
    #: The project as it is called, which may be by way of links.
    alias: str
    home: str
    path: str
    settings: SandboxConfig
    #: Folders of the host that hold secrets beyond those that everybody has.
    hidden: tuple[str, ...] = ()
    #: Without it there is only the system, which is enough to try things out.
    has_project: bool = True
    #: Nothing can be written, so that nothing has to be guarded.
    is_read_only: bool = False
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    #: What the session was made of, with links followed: nothing of it can be changed.
    guarded: tuple[str, ...] = ()


class View:
    """What is to be seen inside, as arguments for bubblewrap.

    Every place occurs once and after those above it, so that nothing covers what was put there before.
    """

    def __init__(self, scene: Scene) -> None:
        """Lay it out; raises FolderOutsideError when the folder to run in cannot be shown, and LedOutError."""
        self._scene = scene
        self._mounts: dict[str, _Mount] = {}
        self._links: dict[str, str] = {}
        #: Places that must not come into being, where nothing is yet: what stands there as long as it is needed.
        self.placeholders: list[Placeholder] = []
        #: Guarded folders with nothing in them: they may be another process's placeholders.
        self.empty: list[Placeholder] = []
        #: Files that must not be made and for which nothing can stand in: they are removed after.
        self.unwanted: list[Placeholder] = []
        #: The places that are guarded, each with the writable folder that it lies in.
        self._kept: dict[str, str] = {}
        self._roots: list[str] = []
        self._lay_out()

    def arguments(self) -> list[str]:
        """Return the arguments, from the outer places to the inner ones."""
        made: list[str] = []
        sealed: list[str] = ["/"]
        for place, mount in self._needed():
            made += self._arguments(place, mount, sealed)
        for place, target in sorted(self._links.items()):
            if not any(is_below(other, place) for other in self._mounts):
                made += ["--symlink", target, place]
        for place in reversed(sealed):
            made += ["--remount-ro", place]
        return made

    def checks(self) -> list[str]:
        """Return what `mount_check` is to look for, of all that lies where a command could put a link meanwhile."""
        outside = mount_points()
        found = []
        for place, mount in self._needed():
            above = [root for root in self._roots if is_below(place, root)]
            if above == [place] or (above and place in outside):
                found.append(f"^{place}")
            elif above:
                found.append(f"={place}" if mount.source == place else f"+{place}")
        return found

    def _needed(self) -> Iterator[tuple[str, _Mount]]:
        """Yield what has to be mounted, from the outer places to the inner ones."""
        shown = ""
        for place, mount in sorted(self._mounts.items(), key=lambda item: item[0].split("/")):
            if mount.kind == _READ and shown and is_below(place, shown):
                continue  # there already: a mount less to be made for every command
            shown = place if mount == (_READ, place) else "" if shown and is_below(place, shown) else shown
            yield place, mount

    def _arguments(self, place: str, mount: _Mount, sealed: list[str]) -> list[str]:
        if mount.kind == _FRESH:
            return ["--tmpfs", place]
        if mount.kind == _WRITE:
            return ["--bind", mount.source, place]
        if mount.kind == _READ or (mount.kind == _GUARD and mount.source):
            return ["--ro-bind", mount.source, place]
        if mount.kind == _HIDE and mount.source:
            return ["--ro-bind", mount.source, place]
        sealed.append(place)
        return ["--tmpfs", place]

    def _lay_out(self) -> None:
        scene = self._scene
        for place in ("/tmp", "/var/tmp", "/run"):
            self._put(place, _FRESH)
        self._links["/var/run"] = "/run"
        writable = [] if scene.is_read_only else _writable(scene)
        roots = [scene.project, *writable] if scene.has_project else []
        self._put_system(roots)
        if not any(is_below(scene.home, root) for root in roots):
            self._put(scene.home, _FRESH)
        if scene.has_project:
            self._put_project(roots)

    def _put_project(self, roots: list[str]) -> None:
        scene, settings = self._scene, self._scene.settings
        for path in _absolute((*settings.readable, *scene.readable), scene, roots):
            self._put(path, _READ, path)
        for root in roots:
            self._put(root, _READ if scene.is_read_only else _WRITE, root)
        self._put_folder(roots)
        self._roots = roots if not scene.is_read_only else []
        for root in self._roots:
            self._guard(root, is_project=root == scene.project)
        self._pin()
        self._hide()

    def _put(self, place: str, kind: int, source: str = "") -> None:
        known = self._mounts.get(place)
        if known is None or kind >= known.kind:
            self._mounts[place] = _Mount(kind, source)

    def _put_system(self, roots: list[str]) -> None:
        scene = self._scene
        for folder in FOLDERS:
            if os.path.islink(folder):
                self._links[folder] = os.readlink(folder)
            elif os.path.isdir(folder):
                self._put(folder, _READ, folder)
        for path in etc_files():
            # What only points into what is there anyway needs no mount, of which every one costs time.
            if os.path.islink(path) and is_below(os.path.realpath(path), "/usr"):
                self._links[path] = os.path.realpath(path)
            else:
                self._put(path, _READ, path)
        if scene.settings.network and os.path.exists(_RESOLVER):
            self._put(_RESOLVER, _READ, os.path.realpath(_RESOLVER))
        # What is on PATH runs outside too: when the home folder is the project, it stays as it is.
        is_home_open = any(is_below(scene.home, root) for root in roots)
        known = roots or [scene.project]
        folders = tool_folders(scene.path, scene.home, known)
        for folder in (*folders, *linked_folders(scene.path, scene.home, known)):
            if is_home_open or not any(is_below(folder, root) for root in roots):
                self._put(folder, _READ, folder)

    def _put_folder(self, roots: list[str]) -> None:
        """Show the folder to run in, and make the names known that lead to it and to the project by way of links."""
        scene = self._scene
        real = os.path.realpath(scene.folder)
        if not self._is_shown(real):
            # A link in the project, which a command may have made, shows nothing that was not there without it.
            is_linked = is_below(scene.folder, scene.alias) or leaves_by_link(scene.folder, roots)
            if is_linked or is_too_wide(real, scene.home) or real == scene.home:
                raise FolderOutsideError(scene.folder)
            self._put(real, _READ, real)
        for name, target in ((scene.alias, scene.project), (scene.folder, real)):
            if name != target and not self._is_shown(name) and not any(is_below(name, link) for link in self._links):
                self._links[name] = target

    def _guard(self, root: str, *, is_project: bool) -> None:
        """Keep what is run outside, or decides about it, from being changed or brought into being."""
        for guarded in guarded_in(root):
            # Folders other than the project get none of ours; what git reads must not come into being there either.
            self._guard_one(guarded if is_project or guarded.git else guarded._replace(stand_in=None), root)
        # The code that runs outside, as it imports as it goes, and what the session was made of.
        code = {os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *self._scene.guarded}
        started = [os.path.join(self._scene.home, name) for name in STARTED]
        for path in (*sorted(path for path in code if path != root), *started):
            if is_below(path, root):
                self._guard_one(GuardedPath(path, None), root)

    def _guard_one(self, guarded: GuardedPath, root: str) -> None:
        stand_in = guarded.stand_in
        # What is mounted on a link lies where the link leads: only a place without any on the way is guarded. Nobody
        # can keep a link itself from being replaced, and what one leads out to cannot be written anyway.
        path, git = os.path.realpath(guarded.path), os.path.realpath(guarded.git) if guarded.git else ""
        if path == root or not is_below(path, root):
            return
        if guarded.is_unwanted and (is_unwanted(path) or not os.path.lexists(path)):
            self.unwanted.append(Placeholder(path, root=root))
            return
        if guarded.is_open:
            if not os.path.isdir(path):
                return
            self._put(path, _WRITE, path)
        elif os.path.exists(path) and not is_placeholder(path, stand_in):
            self._put(path, _GUARD, path)
            if os.path.isdir(path) and not os.listdir(path):
                self.empty.append(Placeholder(path, root=root))
        elif stand_in is not None and can_write(_nearest_folder(path)):
            self._put(path, _GUARD, path if stand_in.content is not None else "")
            lock = git if is_below(git, root) else os.path.dirname(path)
            self.placeholders.append(
                Placeholder(path, stand_in.content, lock if stand_in.content is not None else "", root)
            )
        else:
            return
        self._kept[path] = root

    def _pin(self) -> None:
        """Mount on itself what lies above something guarded: it could be moved away, with what is mounted in it."""
        above = set()
        for path, root in self._kept.items():
            while (path := os.path.dirname(path)) != root and is_below(path, root):
                above.add(path)
        for path in sorted(above):
            # What lies in a guarded folder cannot be moved, and would be writable then.
            if path not in self._mounts and self._kind_at(path) == _WRITE:
                self._put(path, _WRITE, path)

    def _hide(self) -> None:
        for path in dict.fromkeys(self._secrets()):
            if self._is_shown(path) and path not in (self._scene.project, *self._roots_above(path)):
                self._put(path, _HIDE, "" if os.path.isdir(path) else os.devnull)
        for name in listening_sockets():
            for base in (self._scene.project, self._scene.folder):
                path = os.path.join(base, name)
                real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                if self._is_shown(real) and os.path.lexists(real) and not os.path.islink(real):
                    self._put(real, _HIDE, os.devnull)

    def _secrets(self) -> Iterator[str]:
        scene = self._scene
        for path in (*(os.path.join(scene.home, name) for name in SECRETS), *scene.hidden):
            if os.path.exists(path):
                yield os.path.realpath(path)

    def _roots_above(self, path: str) -> tuple[str, ...]:
        """Return what the plan names itself: it may show a secret by naming it, but not by naming what it lies in."""
        return tuple(place for _, place in _places(self._scene.settings.readable, self._scene) if place == path)

    def _is_shown(self, path: str) -> bool:
        """Tell whether a path of the host can be seen."""
        return self._kind_at(path) in (_READ, _WRITE, _GUARD)

    def _kind_at(self, path: str) -> int | None:
        """Return what is done at a path, by the innermost place that it lies in."""
        while path != "/":
            if (mount := self._mounts.get(path)) is not None:
                return mount.kind
            path = os.path.dirname(path)
        return None


def _nearest_folder(path: str) -> str:
    """Return the folder that a path lies in, or would, as far as it exists."""
    while not os.path.isdir(path := os.path.dirname(path)):
        pass
    return path


def _writable(scene: Scene) -> list[str]:
    """Return what can be written besides the project; raises LedOutError."""
    found = list(_places((*scene.settings.writable, *scene.writable), scene))
    for given, real in found:
        others = [place for _, place in found if place != real]
        if leaves_by_link(given, [scene.project, *others]):
            raise LedOutError(given, real)
    return [real for _, real in found]


def _absolute(paths: Iterable[str], scene: Scene, roots: Sequence[str]) -> list[str]:
    """Return the paths that exist, with links followed; raises LedOutError for one that leads out of a root."""
    found = []
    for given, real in _places(paths, scene):
        if leaves_by_link(given, roots):
            raise LedOutError(given, real)
        found.append(real)
    return found


def _places(paths: Iterable[str], scene: Scene) -> Iterator[tuple[str, str]]:
    """Yield the paths that exist, as they are named and with links followed; relative ones are from the project."""
    for path in paths:
        named = place_of(path, scene.project, scene.home)
        real = os.path.realpath(named)
        if os.path.exists(real) and real != "/":
            yield named, real
