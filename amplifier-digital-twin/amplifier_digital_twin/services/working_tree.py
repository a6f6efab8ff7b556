"""A working tree as it is, as a tree of git: uncommitted, untracked and deleted files count, ignored ones do not."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.git_command import quoted, run_git
from amplifier_digital_twin.services.git_source import GitSource
from amplifier_digital_twin.services.object_store import Entry, ObjectStore

#: Wins over every `.gitattributes`: content is compared and kept byte for byte.
_AS_IT_IS: Final = "* -text -ident -filter -working-tree-encoding\n"
_SUBMODULE: Final = b"160000"
_LINK: Final = b"120000"
_PLAIN: Final = b"100644"
_PROGRAM: Final = b"100755"
#: Settings of the repository that say how to read its files; no other one takes effect.
_KEPT_SETTINGS: Final = ("core.filemode", "core.symlinks", "core.ignorecase")
_NO_FILTER: Final = (b"unspecified", b"unset", b"set")


@dataclass
class WorkingTree:
    """Reads the working tree of `source` and keeps what it finds in the bare repository `store`, nowhere else."""

    source: GitSource
    store: Path
    objects: ObjectStore
    notes: list[str] = field(default_factory=list)

    def write(self, known: Callable[[], Set[str]]) -> str:
        """Return the id of the tree, written but for folders that are `known` when everything else is done.

        Raises TwinError for a file that is unreadable.
        """
        settings = self.source.settings
        self._options = [
            word for name in _KEPT_SETTINGS if name in settings for word in ("-c", f"{name}={settings[name]}")
        ]
        self._has_modes = settings.get("core.filemode", "true").lower() != "false"
        self._has_links = settings.get("core.symlinks", "true").lower() != "false"
        shared = self._lend_shared_index()
        try:
            # Two looks at the disk at the same time: every launch waits for both.
            with ThreadPoolExecutor(1) as beside:
                untracked = beside.submit(self._untracked)
                entries, doubtful = self._tracked()
                attributes = self._filtered(entries)
                (self.store / "info").mkdir(exist_ok=True)
                (self.store / "info" / "attributes").write_text(_AS_IT_IS, encoding="utf-8")
                changed = set(self._list("-m")) | doubtful | attributes | untracked.result()
        finally:
            for file in shared:
                file.unlink()
        self._take(entries, changed)
        return self.objects.write_tree(entries, known())

    def _git(self, *arguments: str | Path, stdin: bytes = b"") -> bytes:
        """Read the source's index with the store's settings, so that no program the source names is ever run."""
        from amplifier_kit.guard.git import read_environment

        root = str(self.source.path)
        environment = read_environment(git_dir=str(self.store), work_tree=root, outside=[root]) | {
            "GIT_INDEX_FILE": str(self.source.git_dir / "index"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(self.source.common_dir / "objects"),
        }
        return run_git(
            (*self._options, *arguments), environment=environment, cwd=self.source.path, stdin=stdin, outside=[root]
        )

    def _list(self, *arguments: str | Path) -> list[bytes]:
        return [item for item in self._git("ls-files", "-z", *arguments).split(b"\0") if item]

    def _lend_shared_index(self) -> list[Path]:
        """Put the other half of a split index where git looks for it."""
        halves = self.source.git_dir.glob("sharedindex.*")
        return [Path(shutil.copy2(file, self.store / file.name)) for file in halves]

    def _tracked(self) -> tuple[dict[bytes, Entry], set[bytes]]:
        """Return what the index holds, and the paths for which it must not be believed."""
        entries: dict[bytes, Entry] = {}
        doubtful: set[bytes] = set()
        submodules = []
        for line in self._list("-s", "-v"):
            facts, path = line.split(b"\t", 1)
            tag, mode, name, stage = facts.split(b" ")
            if mode == _SUBMODULE:
                submodules.append(path)
                continue
            entries[path] = Entry(mode, name.decode())
            # In conflict, or marked to be taken for unchanged without looking (a small letter).
            if stage != b"0" or tag == b"h":
                doubtful.add(path)
        if submodules:
            self._note("submodules are left out", submodules)
        return entries, doubtful

    def _filtered(self, entries: dict[bytes, Entry]) -> set[bytes]:
        """Return the paths whose tracked content is a stand-in for the real one, as with large file storage."""
        root = os.fsencode(self.source.path)
        rules = [path for path in entries if path.rpartition(b"/")[2] == b".gitattributes"]
        if not any(b"filter" in _read(os.path.join(root, path)) for path in rules):
            return set()
        said = self._git("check-attr", "-z", "--stdin", "filter", stdin=b"\0".join([*entries, b""])).split(b"\0")
        return {path for path, value in zip(said[::3], said[2::3], strict=False) if value not in _NO_FILTER}

    def _untracked(self) -> set[bytes]:
        from amplifier_kit.guard.git import find_git, read_user_settings

        own = self.source.common_dir / "info" / "exclude"
        extra = [f"--exclude-from={own}"] if own.is_file() else []
        # What the user ignores everywhere; the user's other settings do not count.
        ignored = self.store / "user-excludes"
        ignored.write_bytes(read_user_settings(find_git(outside=[str(self.source.path)])).excludes)
        extra.append(f"--exclude-from={ignored}")
        found = set(self._list("-o", "--exclude-standard", *extra))
        nested = {path for path in found if path.endswith(b"/")}
        if nested:
            self._note("repositories inside are left out", sorted(nested))
        return found - nested

    def _take(self, entries: dict[bytes, Entry], changed: set[bytes]) -> None:
        """Bring the entries to what lies on the disk."""
        root = os.fsencode(self.source.path)
        folders: dict[bytes, bool] = {b"": True}
        for path in changed:
            before = entries.pop(path, None)
            full = os.path.join(root, path)
            try:
                if not _is_real_folder(root, os.path.dirname(path), folders):
                    continue
                there = os.lstat(full)
                if stat.S_ISLNK(there.st_mode):
                    entries[path] = Entry(_LINK, self.objects.write("blob", os.readlink(full)))
                elif stat.S_ISREG(there.st_mode):
                    entries[path] = Entry(self._mode(there.st_mode, before), self.objects.write_file(full))
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted: it stays out
            except OSError as error:
                said = f"{os.fsdecode(full)!r} cannot be read: {error.strerror or error}"
                raise TwinError("repository_unreadable", said, "make it readable, or have git ignore it") from error

    def _mode(self, found: int, before: Entry | None) -> bytes:
        if before is not None and before.mode == _LINK and not self._has_links:
            return _LINK  # a file system without links: git writes their targets into plain files
        if self._has_modes:
            return _PROGRAM if found & stat.S_IXUSR else _PLAIN
        return before.mode if before is not None and before.mode in (_PLAIN, _PROGRAM) else _PLAIN

    def _note(self, what: str, paths: list[bytes]) -> None:
        names = ", ".join(path.decode("utf-8", "replace") for path in paths[:5])
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        self.notes.append(f"{self.source.path}: {what}: {names}{more}")


def _is_real_folder(root: bytes, path: bytes, known: dict[bytes, bool]) -> bool:
    """Tell whether no part of a path is a link, which could lead out of the working tree."""
    if path not in known:
        is_real = _is_real_folder(root, os.path.dirname(path), known)
        known[path] = is_real and stat.S_ISDIR(os.lstat(os.path.join(root, path)).st_mode)
    return known[path]


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # deleted or replaced: then it has no say either
