"""The layers that a universe's tree is made of: written aside, kept by name, stacked, copied."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded.asides import ASIDE, aside_of
from amplifier_digital_twin.embedded.chores import copy_tree, remove_trees, strip_privileges, unpack
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.value import Value


class Node(Value):
    """Something in a layer: a folder (neither content nor target), a file or a link, and whose it is inside."""

    mode: int = 0o755
    content: bytes | None = None
    target: str | None = None
    uid: int = 0


Nodes = Mapping[str, Node]


def with_parents(nodes: Nodes) -> dict[str, Node]:
    """Return the nodes of a layer, by absolute path, with the folders that lead to them, parents first.

    Raises TwinError for a path that is not absolute and plain.
    """
    complete: dict[str, Node] = {}
    for path in nodes:
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or "\0" in path or str(pure) != path:
            raise TwinError("path_invalid", f"{path!r} is no plain absolute path", "correct the path in the profile")
        for parent in list(pure.parents)[-2::-1]:
            complete.setdefault(str(parent), nodes.get(str(parent), Node()))
        complete[path] = nodes[path]
    return complete


async def write_layer(folder: Path, nodes: Nodes, ids: IdMap) -> None:
    """Make a folder hold these nodes and nothing else, owned as inside."""
    complete = with_parents(nodes)
    make_empty(folder, ids)
    if ids.kind == "subordinate":
        archive = folder.with_name(f"{ASIDE}{folder.name}.tar")
        try:
            archive.write_bytes(_archive(complete))
            await unpack(archive, folder, ids)
        finally:
            archive.unlink(missing_ok=True)
        return
    for path, node in complete.items():
        _write_node(folder / path[1:], node, ids)


def make_empty(folder: Path, ids: IdMap) -> None:
    """Make a folder that belongs to root inside (or to the one user there is)."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    if ids.kind == "range":
        os.chown(folder, *ids.owner(0))


def _write_node(place: Path, node: Node, ids: IdMap) -> None:
    if node.target is not None:
        place.symlink_to(node.target)
    elif node.content is not None:
        place.write_bytes(node.content)
    else:
        place.mkdir()
    if ids.kind == "range":
        os.chown(place, *ids.owner(node.uid), follow_symlinks=False)
    if node.target is None:
        place.chmod(node.mode)


def _archive(nodes: Nodes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, node in nodes.items():
            info = tarfile.TarInfo(path[1:])
            info.mtime = int(time.time())
            info.mode, info.uid, info.gid = node.mode, node.uid, node.uid
            if node.target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, node.target
            elif node.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(node.content)
            archive.addfile(info, io.BytesIO(node.content or b""))
    return buffer.getvalue()


class Kept(Value):
    """Layers kept under one name; `folder` holds them numbered, the lowest first."""

    folder: Path

    @property
    def is_there(self) -> bool:
        """Tell whether it is kept, whole."""
        return self.folder.is_dir()

    def stack(self) -> list[Path]:
        """Return its layers, topmost first."""
        numbered = sorted((path for path in self.folder.iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
        return numbered[::-1]

    async def keep(self, below: Sequence[Path], upper: Path, ids: IdMap, *, replaces: bool) -> None:
        """Keep a copy of `upper`, and of the layers it lies on (topmost first), under this name.

        It is written aside and then renamed, so that nobody ever sees a part of it. What had the name before stays in
        its place, or is set aside when this one `replaces` it: it may be mounted, and is therefore not removed now.
        """
        aside = aside_of(self.folder)
        aside.mkdir(parents=True)
        try:
            for number, layer in enumerate([*below[::-1], upper]):
                target = aside / str(number)
                make_empty(target, ids)
                await copy_tree(layer, target, ids, with_links=layer is not upper)
            # The layers below it were kept before, and are linked: they have none any more.
            await strip_privileges(target, ids)
            if replaces and self.is_there:
                self.folder.rename(aside_of(self.folder))
            settle(aside, self.folder)
        except BaseException:
            await completed(remove_trees([aside], ids))
            raise
        await remove_trees([aside], ids)

    async def take(self, upper: Path, ids: IdMap) -> None:
        """Keep `upper` itself, which is gone from its place then, under this name; one that is there already stays."""
        aside = aside_of(self.folder)
        aside.mkdir(parents=True)
        try:
            os.rename(upper, aside / "0")
            await strip_privileges(aside / "0", ids)
            settle(aside, self.folder)
        finally:
            await completed(remove_trees([aside], ids))


def settle(aside: Path, folder: Path) -> None:
    """Give a finished folder its name; when another has the name already, both stay where they are."""
    try:
        aside.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def check_name(name: str) -> str:
    """Return a name of a snapshot or layer; raise TwinError for one that cannot be a folder's."""
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise TwinError(
            "name_invalid", f"{name!r} is no name for a snapshot", "use letters, digits, '-', '_' and '.', not first"
        )
    return name
