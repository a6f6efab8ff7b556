"""Objects of git, written into a repository of our own without a process for each."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from amplifier_digital_twin.errors import TwinError

if TYPE_CHECKING:
    import hashlib

#: Speed counts: the repository lives as long as its universe.
_LEVEL: Final = 1
_PIECE: Final = 1024 * 1024
_FOLDER: Final = b"40000"


class Entry(NamedTuple):
    """A file of a tree: its mode as git writes it, and the name of its object."""

    mode: bytes
    object: str


class _Folder(dict[bytes, "Entry | _Folder"]):
    """A folder of a tree."""


class ObjectStore:
    """Writes to the `objects` folder of a bare repository, and to nothing else."""

    def __init__(self, repository: Path, object_format: str) -> None:
        self._folder = repository / "objects"
        self._format = object_format

    def write(self, kind: Literal["blob", "tree", "commit"], content: bytes) -> str:
        """Keep an object; return its name."""
        whole = b"%s %d\0%s" % (kind.encode(), len(content), content)
        name = self._sum(whole).hexdigest()
        self._place(name, zlib.compress(whole, _LEVEL))
        return name

    def write_file(self, path: bytes) -> str:
        """Keep the content of a file, byte for byte; raise OSError. A link in its place is not followed."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(0, "is no file any more", os.fsdecode(path))
            if facts.st_size <= _PIECE:
                return self.write("blob", file.read())
            header = b"blob %d\0" % facts.st_size
            hasher, packer = self._sum(header), zlib.compressobj(_LEVEL)
            self._folder.mkdir(exist_ok=True)
            temporary = self._folder / f"incoming-{os.getpid()}-{descriptor}"
            left = facts.st_size
            with temporary.open("wb") as packed:
                packed.write(packer.compress(header))
                while piece := file.read(min(_PIECE, left)):
                    left -= len(piece)
                    hasher.update(piece)
                    packed.write(packer.compress(piece))
                packed.write(packer.flush())
            if left:
                temporary.unlink()
                raise OSError(0, "became shorter while it was read", os.fsdecode(path))
        place = self._path(hasher.hexdigest())
        place.parent.mkdir(exist_ok=True)
        temporary.replace(place)
        return hasher.hexdigest()

    def write_tree(self, entries: Mapping[bytes, Entry], known: Set[str]) -> str:
        """Keep the tree of these files and return its name; folders whose trees are `known` elsewhere are not written.

        Raises TwinError when one path is a file and a folder at the same time.
        """
        root = _Folder()
        for path, entry in entries.items():
            *folders, name = path.split(b"/")
            current = root
            for folder in folders:
                below = current.setdefault(folder, _Folder())
                if not isinstance(below, _Folder):
                    raise _contradiction(path)
                current = below
            if name in current:
                raise _contradiction(path)
            current[name] = entry
        return self._write_folder(root, known)

    def _write_folder(self, folder: _Folder, known: Set[str]) -> str:
        lines = []
        for name, entry in folder.items():
            is_folder = isinstance(entry, _Folder)
            mode = _FOLDER if isinstance(entry, _Folder) else entry.mode
            target = self._write_folder(entry, known) if isinstance(entry, _Folder) else entry.object
            # git sorts folders as if their names ended with a slash.
            lines.append((name + b"/" if is_folder else name, b"%s %s\0%s" % (mode, name, bytes.fromhex(target))))
        content = b"".join(line for _, line in sorted(lines))
        own = self._sum(b"tree %d\0%s" % (len(content), content)).hexdigest()
        return own if own in known else self.write("tree", content)

    def _sum(self, start: bytes) -> hashlib._Hash:
        import hashlib

        # Names of objects, not protection: git's own choice.
        return hashlib.new(self._format, start, usedforsecurity=False)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name[2:]

    def _place(self, name: str, packed: bytes) -> None:
        place = self._path(name)
        if place.exists():
            return
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(packed)


def _contradiction(path: bytes) -> TwinError:
    shown = path.decode("utf-8", "replace")
    said = f"{shown}: is a file and a folder at the same time for git"
    return TwinError("repository_unreadable", said, "run `git status` in the repository and resolve it")
