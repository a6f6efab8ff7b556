"""Keep what was installed for a module in a folder of its own: there whole or not at all, whoever is killed when."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amplifier_foundation.files import FileBusyError, locked
from amplifier_foundation.sources.module_project import ModuleProject

_RECORD: Final = ".amplifier-installed.json"
_VERSION: Final = 1
_STAGING: Final = ".staging"
_POLL: Final = 0.05


@dataclass(frozen=True)
class Installation:
    """What a finished folder holds, and what it takes for granted."""

    #: Distributions by name, with their versions.
    installed: Mapping[str, str] = field(default_factory=dict)
    #: Requirements that the program's environment met when this was installed.
    relies_on: tuple[str, ...] = ()


class SiteFolder:
    """One folder of installed distributions below `root`, known by the name of its module and a fingerprint."""

    def __init__(self, root: Path, name: str, fingerprint: str) -> None:
        safe = "".join(char if char.isalnum() or char in "._-" else "-" for char in name).strip(".-")[:80]
        self._root = root
        self._entry = f"{safe or 'module'}-{fingerprint}"
        self.path = root / self._entry

    def installation(self) -> Installation | None:
        """Return what the folder holds; None when it is not there or was not made by this program."""
        import json

        try:
            data = json.loads((self.path / _RECORD).read_bytes())
            if data["version"] != _VERSION:
                return None
            return Installation(dict(data["installed"]), tuple(data["relies_on"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None  # whatever it is, it is not used, and made anew

    @asynccontextmanager
    async def locked(self, timeout: float) -> AsyncIterator[None]:
        """Hold the folder's lock against other tasks and processes while the block runs.

        Raises FileBusyError after `timeout` seconds, and OSError when no lock can be made there.
        """
        import asyncio

        path = _lock_file(self._root, self._entry)
        end = time.monotonic() + timeout
        while True:
            holding = locked(path, timeout=0)
            try:
                holding.__enter__()
                break
            except FileBusyError:
                if time.monotonic() >= end:
                    raise FileBusyError(
                        f"{self.path}: another process has been installing for {timeout:g} s: wait for it, or end it"
                    ) from None
            await asyncio.sleep(_POLL)  # not in a thread: a cancelled caller must not get the lock afterwards
        try:
            yield
        finally:
            holding.__exit__(None, None, None)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Provide an empty folder to install into; it is removed after the block unless `finish` took it.

        To be used under the lock, so that any other such folder of this entry was left by somebody who was killed.
        """
        sweep(self._root, self._entry)
        staging = self._root / f"{_STAGING}.{self._entry}.{os.getpid()}.{time.monotonic_ns():x}"
        staging.mkdir(parents=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def finish(self, staged: Path, installation: Installation) -> None:
        """Put the finished folder in its place, with its record; an outdated one makes room. Raises OSError."""
        import json

        record = {
            "version": _VERSION,
            "installed": dict(sorted(installation.installed.items())),
            "relies_on": sorted(installation.relies_on),
        }
        (staged / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if self.path.exists():
            outdated = self._root / f"{_STAGING}.{self._entry}.{os.getpid()}.old"
            os.rename(self.path, outdated)
            os.rename(staged, self.path)
            shutil.rmtree(outdated, ignore_errors=True)
        else:
            os.rename(staged, self.path)


def sweep(root: Path, entry: str | None = None) -> None:
    """Remove what killed installers left of an entry whose lock the caller holds, and of all that nobody holds."""
    for leftover in root.glob(f"{_STAGING}.*"):
        of_entry = leftover.name.removeprefix(f"{_STAGING}.").rsplit(".", 2)[0]
        if of_entry == entry:
            shutil.rmtree(leftover, ignore_errors=True)
            continue
        try:
            with locked(_lock_file(root, of_entry), timeout=0):
                shutil.rmtree(leftover, ignore_errors=True)
        except (FileBusyError, OSError):
            continue  # somebody is installing there right now, or it is not ours to remove


def write_dist_info(folder: Path, project: ModuleProject) -> None:
    """Make a module that runs from its own folder known by name, version and entry points. Raises OSError."""
    if project.name is None:
        return
    from packaging.utils import canonicalize_name

    stem = f"{canonicalize_name(project.name).replace('-', '_')}-{project.version}"
    info = folder / f"{stem}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {project.version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "INSTALLER").write_text("amplifier\n", encoding="utf-8")
    if project.entry_points:
        lines = []
        for group, points in sorted(project.entry_points.items()):
            lines += [f"[{group}]", *(f"{name} = {target}" for name, target in sorted(points.items())), ""]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def _lock_file(root: Path, entry: str) -> Path:
    return root / f".{entry}.lock"
