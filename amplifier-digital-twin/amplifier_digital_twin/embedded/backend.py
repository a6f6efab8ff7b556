"""The backend that needs no engine: universes made of this process's own namespaces."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from amplifier_digital_twin.backends.twin import Probe, TwinSpec
from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.accounts import account_nodes
from amplifier_digital_twin.embedded.anchor import Anchor
from amplifier_digital_twin.embedded.asides import aside_of
from amplifier_digital_twin.embedded.bubblewrap import check_path, find_bubblewrap
from amplifier_digital_twin.embedded.chores import remove_trees, unpack
from amplifier_digital_twin.embedded.control_groups import PREFIX, hierarchies, remove_groups
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.layers import Kept, Node, Nodes, check_name, make_empty, settle, write_layer
from amplifier_digital_twin.embedded.limits import grant
from amplifier_digital_twin.embedded.probe import cgroups_reason, overlay_reason, probe_embedded
from amplifier_digital_twin.embedded.probe_facts import probe_facts
from amplifier_digital_twin.embedded.skeleton import skeleton_key, skeleton_nodes
from amplifier_digital_twin.embedded.tree import Tree
from amplifier_digital_twin.embedded.twin import EmbeddedTwin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, User
from amplifier_digital_twin.remembered import Remembered

Progress = Callable[[str], None]

#: Everything of a universe of this backend lies in this folder of the universe's.
_FOLDER: Final = "embedded"
_RECORD: Final = "record.json"
#: Places that are made anew at every start: a file put there would be covered.
_COVERED: Final = ("/dev", "/proc", "/run", "/tmp", "/usr")


class EmbeddedBackend:
    """Makes universes of namespaces and bubblewrap; no daemon, root or not."""

    name = "embedded"

    def __init__(self, remembered: Remembered | None = None) -> None:
        """Probe nothing yet; what is `remembered` of this machine is not tried out again."""
        self._remembered = remembered
        self._ids = IdMap.of_this_user()
        self._probe: Probe | None = None
        #: Device of a file system → why it cannot hold overlays, or nothing.
        self._overlays: dict[int, str] = {}
        #: Waits for the next twin.
        self._anchor: Anchor | None = None

    async def probe(self) -> Probe:
        """Say what can be done here; never raises."""
        if self._probe is None:
            self._probe = await probe_embedded(self._remembered)
        return self._probe

    async def images(self) -> Sequence[str]:
        """Name the base images that can be had."""
        from amplifier_digital_twin.apt_sources import RELEASES
        from amplifier_digital_twin.base_systems import builder

        try:
            builder()
        except TwinError:
            return ["host"]
        return ["host", *(f"debian:{number}" for number in RELEASES)]

    async def create(self, spec: TwinSpec, progress: Progress) -> EmbeddedTwin:
        """Make and start a universe; raise TwinError, with nothing left behind, when that cannot be done."""
        anchor, self._anchor = self._anchor, None
        try:
            return await self._create(spec, progress, anchor)
        except BaseException:
            if anchor is not None:
                await completed(anchor.close())
            raise

    @asynccontextmanager
    async def expecting(self) -> AsyncIterator[None]:
        """Get ready for a twin that will be made in this block; what was not needed is given up at its end."""
        try:
            self._anchor = Anchor()
        except OSError:
            pass  # tried again, and told, when it is really needed
        try:
            yield
        finally:
            anchor, self._anchor = self._anchor, None
            if anchor is not None:
                await completed(anchor.close())

    async def _create(self, spec: TwinSpec, progress: Progress, anchor: Anchor | None) -> EmbeddedTwin:
        await self._check(spec)
        folder = spec.folder / _FOLDER
        found = hierarchies()
        groups = [hierarchy.group(spec.id) for hierarchy in found]
        _make_own(folder)
        try:
            _write_record(folder, groups)
            tree = await self._tree(spec, folder, progress)
            twin = EmbeddedTwin(
                spec,
                self._ids,
                tree,
                grant(found, spec.id, spec.limits),
                self._layers(spec.cache, tree),
                self._notes(spec, tree),
                anchor,
            )
            await twin.start()
        except BaseException as error:
            await completed(self.remove(spec.folder, spec.id))
            if isinstance(error, OSError):
                raise TwinError(
                    "create_failed", f"the universe {spec.id} cannot be made: {error}", "run `doctor`; free some space"
                ) from error
            raise
        return twin

    async def has_layer(self, cache: Path, layer: str) -> bool:
        """Tell whether a provisioned layer of that name is kept."""
        if not _is_folder(cache):
            return False
        has_overlay = not await self._overlay_reason(cache)
        return Kept(self._form(cache, has_overlay) / "layers" / check_name(layer)).is_there

    async def remove(self, folder: Path, universe: str) -> None:
        """Remove whatever a dead universe left: control groups, layers; never raises for what is gone.

        Raises TwinError for what is there and does not go.
        """
        own = folder / _FOLDER
        groups = [Path(path) for path in _read_record(own)] + [each.group(universe) for each in hierarchies()]
        ours = [group for group in dict.fromkeys(groups) if group.name == f"{PREFIX}{universe}"]
        left = await asyncio.to_thread(remove_groups, ours)
        await remove_trees([own], self._ids)
        if left:
            raise TwinError(
                "removal_failed", f"control groups do not go: {', '.join(map(str, left))}", "try it again in a minute"
            )

    async def _check(self, spec: TwinSpec) -> None:
        """Raise TwinError for what cannot be, before anything is made."""
        find_bubblewrap()
        check_path(spec.folder)
        self._ids.check_user(spec.user, spec.user)
        if not spec.id.replace("-", "").isalnum():
            raise TwinError("name_invalid", f"{spec.id!r} is no id of a universe", "use letters, digits and '-'")
        for path in spec.files:
            if any(path == covered or path.startswith(f"{covered}/") for covered in _COVERED):
                raise TwinError("path_invalid", f"no file can be put at {path}", f"{', '.join(_COVERED)} are made anew")
        found = {name: await self._feature(name, spec) for name in spec.require}
        if missing := [f"{name}: {reason}" for name, reason in found.items() if reason != "yes"]:
            raise TwinError(
                "feature_missing", f"the profile requires what is not here: {'; '.join(missing)}", "see `doctor`"
            )
        if spec.is_strict and (reason := call_filter.missing_reason()):
            raise TwinError(
                "feature_missing",
                f"isolation is strict, and seccomp cannot be had: {reason}",
                "write `isolation: best-effort` in the profile to go on without",
            )

    async def _feature(self, feature: str, spec: TwinSpec) -> str:
        if feature == "cgroups":
            return cgroups_reason()
        if feature == "overlay":
            spec.folder.mkdir(parents=True, exist_ok=True)
            return await self._overlay_reason(spec.folder) or "yes"
        return (await self.probe()).features.get(feature, "unknown here")

    async def _overlay_reason(self, folder: Path) -> str:
        device = os.stat(folder).st_dev
        if device not in self._overlays:
            self._overlays[device] = await self._tried_overlay(folder, device)
        return self._overlays[device]

    async def _tried_overlay(self, folder: Path, device: int) -> str:
        facts = ("overlay", device, *probe_facts(str(find_bubblewrap())))
        if self._remembered is not None and self._remembered.get(*facts) == "yes":
            return ""
        reason = await overlay_reason(folder, self._ids)
        if self._remembered is not None and not reason:
            self._remembered.put("yes", *facts)
        return reason

    def _form(self, cache: Path, has_overlay: bool) -> Path:
        """Return the place of layers that this id map and way of stacking can use: no other can."""
        return cache / _FOLDER / (self._ids.kind if has_overlay else f"{self._ids.kind}-copy")

    def _layers(self, cache: Path, tree: Tree) -> Path:
        return self._form(cache, tree.has_overlay) / "layers"

    def _notes(self, spec: TwinSpec, tree: Tree) -> list[str]:
        notes = []
        if reason := call_filter.missing_reason():
            notes.append(f"calls that reach the whole machine, such as those for keys, are not refused: {reason}")
        if not tree.has_overlay:
            notes.append(f"layers are copied: {self._overlays.get(spec.folder.stat().st_dev, '')}")
        if spec.network == "host":
            notes.append("the network is the host's: its loopback services and abstract sockets can be reached")
        return notes

    async def _tree(self, spec: TwinSpec, folder: Path, progress: Progress) -> Tree:
        """Make the layers of a universe, those that others can use too in the cache."""
        has_overlay = not await self._overlay_reason(folder)
        form = self._form(spec.cache, has_overlay)
        base = await self._base(spec.base, spec.cache, form, progress)
        is_host = _is_host(spec.base)
        accounts, generated = folder / "accounts", folder / "generated"
        await write_layer(accounts, account_nodes(spec.user, None if is_host else base), self._ids)
        await write_layer(generated, _file_nodes(spec), self._ids)
        ground = [accounts, *await self._tools(spec.tools, form), base]
        stack: list[Path] = []
        if spec.layer is not None:
            kept = Kept(form / "layers" / check_name(spec.layer))
            if not kept.is_there:
                raise TwinError("layer_missing", f"no layer {spec.layer!r} is kept", "launch again to provision it")
            stack = kept.stack()
        return Tree(folder, self._ids, has_overlay, generated, ground, stack)

    async def _base(self, base: Base, cache: Path, form: Path, progress: Progress) -> Path:
        if _is_host(base):
            target = form / "skeletons" / await asyncio.to_thread(skeleton_key)
            return await self._cached(target, lambda place: write_layer(place, skeleton_nodes(), self._ids))
        from amplifier_digital_twin.base_systems import root_archive

        archive = await root_archive(base, cache, progress)
        key = base.tar.sha256 if base.tar is not None else archive.stem

        async def make(place: Path) -> None:
            progress(f"unpacking {archive.name}")
            make_empty(place, self._ids)
            await unpack(archive, place, self._ids)

        return await self._cached(form / "bases" / key, make)

    async def _tools(self, tools: Mapping[str, Path], form: Path) -> list[Path]:
        """Return the layer that holds copies of the host's programs, when there are any."""
        if not tools:
            return []
        return [await self._cached(form / "tools" / _tools_key(tools), lambda place: self._copy_tools(place, tools))]

    async def _copy_tools(self, place: Path, tools: Mapping[str, Path]) -> None:
        def read() -> Nodes:
            return {f"/opt/twin/bin/{name}": Node(0o755, path.read_bytes()) for name, path in tools.items()}

        await write_layer(place, await asyncio.to_thread(read), self._ids)

    async def _cached(self, target: Path, make: Callable[[Path], Awaitable[None]]) -> Path:
        """Return a folder of the cache, made aside and renamed when it is not there; two at once do no harm."""
        if _is_folder(target):
            return target
        aside = aside_of(target)
        try:
            await make(aside)
            settle(aside, target)
        finally:
            await completed(remove_trees([aside], self._ids))
        return target


def _is_folder(path: Path) -> bool:
    return path.is_dir()


def _is_host(base: Base) -> bool:
    return base.image == "host" and base.tar is None


def _file_nodes(spec: TwinSpec) -> dict[str, Node]:
    """Return the files of every start; those in the user's home are his, with the folders that lead to them."""
    user: User = spec.user
    files = dict(spec.files)
    if spec.network == "host":
        for path in ("/etc/resolv.conf", "/etc/hosts"):
            if path not in files and os.path.isfile(path):
                files[path] = (Path(path).read_bytes(), 0o644)
    nodes: dict[str, Node] = {}
    for path, (content, mode) in files.items():
        is_his = path.startswith(f"{user.home}/")
        nodes[path] = Node(mode, content, uid=user.uid if is_his else 0)
        parent = os.path.dirname(path)
        while is_his and parent.startswith(user.home):
            nodes.setdefault(parent, Node(0o700 if parent == user.home else 0o755, uid=user.uid))
            parent = os.path.dirname(parent)
    return nodes


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK | os.X_OK)
    except OSError:
        return False  # it lies where this user has no way to


def _tools_key(tools: Mapping[str, Path]) -> str:
    import hashlib

    facts = []
    for name, path in sorted(tools.items()):
        if not name or "/" in name or name.startswith("."):
            raise TwinError("path_invalid", f"{name!r} is no name of a program", "correct `base.tools` in the profile")
        if not _is_program(path):
            raise TwinError("tool_missing", f"{path} is no program", f"install {name}, or leave it out of `base.tools`")
        status = path.stat()
        facts.append((name, str(path.resolve()), status.st_mtime_ns, status.st_size, status.st_ino))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _make_own(folder: Path) -> None:
    """Make the folder of a universe; raise TwinError, and touch nothing, when a universe has it already."""
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise TwinError(
            "place_taken", f"no universe can be made in {folder}: {error.strerror}", "use another id, or `prune --mine`"
        ) from error


def _write_record(folder: Path, groups: Sequence[Path]) -> None:
    """Name what will be made outside the folder, before it is made."""
    aside = folder / f".{_RECORD}"
    aside.write_text(json.dumps({"control_groups": [str(group) for group in groups]}), encoding="utf-8")
    aside.rename(folder / _RECORD)


def _read_record(folder: Path) -> list[str]:
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return [str(path) for path in record["control_groups"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # nothing was made, or the record is torn: the caller looks in today's hierarchies as well
