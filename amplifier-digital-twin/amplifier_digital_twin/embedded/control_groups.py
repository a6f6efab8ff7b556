"""Control groups: the kernel's own limits for a set of processes, in the old layout (v1) and the new one (v2)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.profile.model import Limits
from amplifier_digital_twin.value import Value

#: Every group of ours is called this and the universe's id.
PREFIX: Final = "amplifier-twin-"
_PERIOD: Final = 100_000
#: How long the kernel may take to let go of a group whose processes have ended.
_PATIENCE: Final = 3.0


class Hierarchy(Value):
    """A folder below which groups can be made, and the controllers that they have there."""

    folder: Path
    controllers: frozenset[str]
    version: int

    def group(self, universe: str) -> Path:
        """Return where the group of a universe is."""
        return self.folder / f"{PREFIX}{universe}"


def hierarchies(mounts: str | None = None, own: str | None = None) -> list[Hierarchy]:
    """Return the places where this user can make groups with a controller of ours; none where that is not allowed."""
    mounts = _read("/proc/self/mountinfo") if mounts is None else mounts
    own = _read("/proc/self/cgroup") if own is None else own
    found: dict[str, Hierarchy] = {}
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        place = Path(fields.split()[4].encode().decode("unicode_escape")) if len(fields.split()) > 4 else None
        words = kind.split()
        if place is None or not words:
            continue
        if words[0] == "cgroup":
            for name in {"pids", "memory", "cpu"} & set(words[-1].split(",")):
                if os.access(place, os.W_OK):
                    found.setdefault(name, Hierarchy(place, frozenset({name}), 1))
        elif words[0] == "cgroup2" and (unified := _unified(place, own)) is not None:
            for name in unified.controllers:
                found.setdefault(name, unified)
    unique = {hierarchy.folder: hierarchy for hierarchy in found.values()}
    return [
        Hierarchy(folder, frozenset(n for n, h in found.items() if h.folder == folder), unique[folder].version)
        for folder in unique
    ]


def _unified(place: Path, own: str) -> Hierarchy | None:
    """Return the nearest group above this process that hands its controllers on and lets this user make groups."""
    relative = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "/").lstrip("/")
    candidates = [place] if os.geteuid() == 0 else []
    current = place / relative
    candidates += [parent for parent in current.parents if parent == place or place in parent.parents]
    for folder in candidates:
        wanted = {"pids", "memory", "cpu"}
        handed_on = wanted & set(_read(folder / "cgroup.subtree_control").split())
        # A process may only be moved below a folder whose list of processes this user may write, too.
        if handed_on and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            return Hierarchy(folder, frozenset(handed_on), 2)
    return None


def settings(hierarchy: Hierarchy, limits: Limits) -> Iterator[tuple[str, str, bool]]:
    """Give the files of a group to write for these limits: name, content, whether a kernel may lack it."""
    is_new = hierarchy.version == 2
    if "pids" in hierarchy.controllers and limits.pids is not None:
        yield "pids.max", str(limits.pids), False
    if "memory" in hierarchy.controllers and limits.memory is not None:
        if is_new:
            yield "memory.max", str(limits.memory), False
            yield "memory.swap.max", "0", True
        else:
            yield "memory.limit_in_bytes", str(limits.memory), False
            yield "memory.memsw.limit_in_bytes", str(limits.memory), True
    if "cpu" in hierarchy.controllers and limits.cpus is not None:
        quota = max(1000, int(limits.cpus * _PERIOD))
        if is_new:
            yield "cpu.max", f"{quota} {_PERIOD}", False
        else:
            yield "cpu.cfs_period_us", str(_PERIOD), False
            yield "cpu.cfs_quota_us", str(quota), False


def make_groups(found: Sequence[Hierarchy], universe: str, limits: Limits) -> Mapping[str, Path]:
    """Make a universe's groups and set its limits; return them by controller. Raises OSError, and leaves none then."""
    made: dict[str, Path] = {}
    try:
        for hierarchy in found:
            group = hierarchy.group(universe)
            group.mkdir(exist_ok=True)
            for name in hierarchy.controllers:
                made[name] = group
            for name, value, is_optional in settings(hierarchy, limits):
                if not is_optional or (group / name).exists():
                    (group / name).write_text(value, encoding="ascii")
    except BaseException:
        remove_groups([hierarchy.group(universe) for hierarchy in found])
        raise
    return made


def remove_groups(groups: Sequence[Path]) -> list[Path]:
    """End what is left in these groups and remove them; return those that could not be removed."""
    left = [group for group in dict.fromkeys(groups) if group.name.startswith(PREFIX)]
    end = time.monotonic() + _PATIENCE
    while left:
        left = [group for group in left if not _remove(group)]
        if not left or time.monotonic() > end:
            break
        time.sleep(0.01)
    return left


def _remove(group: Path) -> bool:
    try:
        group.rmdir()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        for text in _read(group / "cgroup.procs").split():
            try:
                os.kill(int(text), signal.SIGKILL)
            except OSError:
                pass  # it has ended meanwhile, or is not ours: the group then stays, and is reported
        return False
    return True


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
