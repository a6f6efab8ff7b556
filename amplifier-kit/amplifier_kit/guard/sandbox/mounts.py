"""Plan the mounts of a sandbox: the visible, writable, protected and hidden paths."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from amplifier_kit.guard.control_files import GuardedPath, guarded_in
from amplifier_kit.guard.processes.programs import is_below, leaves_by_link
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxError
from amplifier_kit.guard.sandbox.mount_check import mount_points
from amplifier_kit.guard.sandbox.placeholders import Placeholder, is_forbidden, is_placeholder
from amplifier_kit.guard.sandbox.system_paths import (
    FOLDERS,
    SECRETS,
    STARTUP,
    can_write,
    etc_files,
    expand,
    is_too_wide,
    linked_folders,
    listening_sockets,
    tool_folders,
)
from amplifier_kit.struct import FrozenStruct

#: Kinds of mounts. Of two at the same path the later one in this list wins.
_TMPFS, _READ, _WRITE, _PROTECT, _HIDE = range(5)

_RESOLVER: Final = "/etc/resolv.conf"


class _Mount(FrozenStruct):
    kind: int
    #: The bind-mounted path of the host; empty for a tmpfs, which is read-only unless its kind is _TMPFS.
    source: str


class MountRequest(FrozenStruct):
    """What the mounts are for."""

    #: The writable folder, with links resolved.
    project: str
    #: The working directory of the command.
    folder: str
    #: The project as the session names it, maybe through links.
    alias: str
    home: str
    path: str
    settings: SandboxConfig
    #: More folders with secrets.
    hidden: tuple[str, ...] = ()
    #: Without the project only the system is visible, which is enough for a trial run.
    has_project: bool = True
    #: Nothing is writable, so that nothing needs protection.
    is_read_only: bool = False
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    #: More files that commands must not change, with links resolved.
    guarded: tuple[str, ...] = ()


class MountPlan:
    """The mounts of a sandbox, as arguments of bubblewrap.

    Every path occurs once and after its parents, so that no mount covers an earlier one.
    """

    def __init__(self, request: MountRequest) -> None:
        """Plan the mounts; raises SandboxError for a working directory or a setting that cannot be mounted safely."""
        self._request = request
        self._mounts: dict[str, _Mount] = {}
        self._links: dict[str, str] = {}
        #: For protected paths that do not exist.
        self.placeholders: list[Placeholder] = []
        #: Protected folders that are empty: they may be placeholders of another process.
        self.empty: list[Placeholder] = []
        #: Files that must not be created and cannot have a placeholder: they are removed afterwards.
        self.forbidden: list[Placeholder] = []
        #: The protected paths, each with the writable folder around it.
        self._protected: dict[str, str] = {}
        #: The writable folders.
        self._roots: list[str] = []
        for path in ("/tmp", "/var/tmp", "/run"):
            self._add(path, _TMPFS)
        self._links["/var/run"] = "/run"
        roots = []
        if request.has_project:
            roots = [request.project, *([] if request.is_read_only else _writable(request))]
        self._add_system(roots)
        if not any(is_below(request.home, root) for root in roots):
            self._add(request.home, _TMPFS)
        if request.has_project:
            self._add_project(roots)

    def arguments(self) -> list[str]:
        """Return the arguments, outer paths first."""
        made: list[str] = []
        read_only = ["/"]
        for path, mount in self._needed():
            if mount.source:
                made += ["--bind" if mount.kind == _WRITE else "--ro-bind", mount.source, path]
            else:
                made += ["--tmpfs", path]
                read_only += [path] if mount.kind != _TMPFS else []
        for path, target in sorted(self._links.items()):
            if not any(is_below(other, path) for other in self._mounts):
                made += ["--symlink", target, path]
        for path in reversed(read_only):
            made += ["--remount-ro", path]
        return made

    def checks(self) -> list[str]:
        """Return the arguments of `mount_check` for mounts in writable folders, where a command could create links."""
        outside = mount_points()
        found = []
        for path, mount in self._needed():
            above = [root for root in self._roots if is_below(path, root)]
            if above == [path] or (above and path in outside):
                found.append(f"^{path}")
            elif above:
                found.append(f"={path}" if mount.source == path else f"+{path}")
        return found

    def _needed(self) -> Iterator[tuple[str, _Mount]]:
        """Yield the mounts, outer paths first, without those that only repeat a read-only mount around them."""
        visible = ""
        for path, mount in sorted(self._mounts.items(), key=lambda item: item[0].split("/")):
            if mount.kind == _READ and visible and is_below(path, visible):
                continue
            visible = path if mount == (_READ, path) else "" if visible and is_below(path, visible) else visible
            yield path, mount

    def _add(self, path: str, kind: int, source: str = "") -> None:
        known = self._mounts.get(path)
        if known is None or kind >= known.kind:
            self._mounts[path] = _Mount(kind, source)

    def _add_system(self, roots: list[str]) -> None:
        request = self._request
        for folder in FOLDERS:
            if os.path.islink(folder):
                self._links[folder] = os.readlink(folder)
            elif os.path.isdir(folder):
                self._add(folder, _READ, folder)
        for path in etc_files():
            # A link into `/usr` can be created as a link, which is faster than a mount.
            if os.path.islink(path) and is_below(os.path.realpath(path), "/usr"):
                self._links[path] = os.path.realpath(path)
            else:
                self._add(path, _READ, path)
        if request.settings.network and os.path.exists(_RESOLVER):
            self._add(_RESOLVER, _READ, os.path.realpath(_RESOLVER))
        # Programs on PATH run outside too: they stay read-only even if the project is the home folder.
        is_home_open = any(is_below(request.home, root) for root in roots)
        known = roots or [request.project]
        folders = tool_folders(request.path, request.home, known)
        for folder in (*folders, *linked_folders(request.path, request.home, known)):
            if is_home_open or not any(is_below(folder, root) for root in roots):
                self._add(folder, _READ, folder)

    def _add_project(self, roots: list[str]) -> None:
        request = self._request
        for given, real in _resolve((*request.settings.readable, *request.readable), request):
            _check_link(given, real, roots)
            self._add(real, _READ, real)
        for root in roots:
            self._add(root, _READ if request.is_read_only else _WRITE, root)
        self._add_folder(roots)
        self._roots = roots if not request.is_read_only else []
        for root in self._roots:
            self._protect_in(root)
        self._pin_parents()
        self._hide()

    def _add_folder(self, roots: list[str]) -> None:
        """Make the working directory visible, and the links through which it and the project are named."""
        request = self._request
        real = os.path.realpath(request.folder)
        if not self.is_visible(real):
            # A link in the project, which a command may have created, must not make anything visible.
            is_linked = is_below(request.folder, request.alias) or leaves_by_link(request.folder, roots)
            if is_linked or is_too_wide(real, request.home) or real == request.home:
                raise SandboxError(
                    f"the working directory {request.folder} is too broad to be visible in the sandbox: choose a "
                    "folder of the project, or set `sandbox: off`",
                    "working_dir_outside",
                )
            self._add(real, _READ, real)
        for name, target in ((request.alias, request.project), (request.folder, real)):
            if name != target and not self.is_visible(name) and not any(is_below(name, link) for link in self._links):
                self._links[name] = target

    def _protect_in(self, root: str) -> None:
        """Protect everything in a writable folder that runs outside of the sandbox, or decides what does."""
        for guarded in guarded_in(root):
            # Outside of the project only what git reads gets placeholders.
            is_replaced = root == self._request.project or guarded.git
            self._protect(guarded if is_replaced else guarded._replace(stand_in=None), root)
        # The running program imports code lazily, and the session was made of these files.
        code = {os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *self._request.guarded}
        startup = [os.path.join(self._request.home, name) for name in STARTUP]
        for path in (*sorted(path for path in code if path != root), *startup):
            if is_below(path, root):
                self._protect(GuardedPath(path, None), root)

    def _protect(self, guarded: GuardedPath, root: str) -> None:
        stand_in = guarded.stand_in
        # A mount on a link is made at its target, so the target is protected. The link itself can be replaced, but what
        # it leads out to is not writable anyway.
        path, git = os.path.realpath(guarded.path), os.path.realpath(guarded.git) if guarded.git else ""
        if path == root or not is_below(path, root):
            return
        if guarded.is_unwanted and (is_forbidden(path) or not os.path.lexists(path)):
            self.forbidden.append(Placeholder(path, root=root))
            return
        if guarded.is_open:
            if not os.path.isdir(path):
                return
            self._add(path, _WRITE, path)
        elif os.path.exists(path) and not is_placeholder(path, stand_in):
            self._add(path, _PROTECT, path)
            if os.path.isdir(path) and not os.listdir(path):
                self.empty.append(Placeholder(path, root=root))
        elif stand_in is not None and can_write(_existing_parent(path)):
            is_file = stand_in.content is not None
            self._add(path, _PROTECT, path if is_file else "")
            lock = git if is_below(git, root) else os.path.dirname(path)
            self.placeholders.append(Placeholder(path, stand_in.content, lock if is_file else "", root))
        else:
            return
        self._protected[path] = root

    def _pin_parents(self) -> None:
        """Bind-mount the writable parents of protected paths on themselves, so that they cannot be renamed."""
        parents = set()
        for path, root in self._protected.items():
            while (path := os.path.dirname(path)) != root and is_below(path, root):
                parents.add(path)
        for path in sorted(parents):
            # In a read-only folder nothing can be renamed, and the mount would make it writable.
            if path not in self._mounts and self._kind_at(path) == _WRITE:
                self._add(path, _WRITE, path)

    def _hide(self) -> None:
        """Hide visible secrets and sockets. A secret that the settings name themselves stays visible."""
        request = self._request
        named = {request.project, *(real for _, real in _resolve(request.settings.readable, request))}
        for path in (*(os.path.join(request.home, name) for name in SECRETS), *request.hidden):
            real = os.path.realpath(path)
            if os.path.exists(path) and self.is_visible(real) and real not in named:
                self._add(real, _HIDE, "" if os.path.isdir(real) else os.devnull)
        for name in listening_sockets():
            for base in (request.project, request.folder):
                path = os.path.join(base, name)
                real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                if self.is_visible(real) and os.path.lexists(real) and not os.path.islink(real):
                    self._add(real, _HIDE, os.devnull)

    def is_visible(self, path: str) -> bool:
        """Return whether a path with links resolved can be read inside."""
        return self._kind_at(path) in (_READ, _WRITE, _PROTECT)

    def _kind_at(self, path: str) -> int | None:
        """Return the kind of the innermost mount around a path."""
        while path != "/":
            if (mount := self._mounts.get(path)) is not None:
                return mount.kind
            path = os.path.dirname(path)
        return None


def _existing_parent(path: str) -> str:
    while not os.path.isdir(path := os.path.dirname(path)):
        pass
    return path


def _writable(request: MountRequest) -> list[str]:
    """Return the writable folders besides the project; raises SandboxError."""
    found = list(_resolve((*request.settings.writable, *request.writable), request))
    for given, real in found:
        _check_link(given, real, [request.project, *(other for _, other in found if other != real)])
    return [real for _, real in found]


def _check_link(given: str, real: str, roots: Sequence[str]) -> None:
    if leaves_by_link(given, roots):
        raise SandboxError(
            f"the sandbox settings name {given}, which a link resolves to {real}: a command that can change the link "
            "could point it anywhere. Name the folder itself in `writable` or `readable`, or remove the link",
            "sandbox_led_out",
        )


def _resolve(paths: Iterable[str], request: MountRequest) -> Iterator[tuple[str, str]]:
    """Yield the absolute and the real path of each setting that exists."""
    for path in paths:
        absolute = expand(path, request.project, request.home)
        real = os.path.realpath(absolute)
        if os.path.exists(real) and real != "/":
            yield absolute, real
