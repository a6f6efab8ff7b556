"""What keeps a universe within its limits: control groups where there are some, limits of each process elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.embedded.control_groups import Hierarchy, make_groups
from amplifier_digital_twin.profile.model import Limits

_NO_GROUP: Final = "no control group can be made"


class Budget(NamedTuple):
    """The limits in force: groups that every process joins, limits that every process has, and what is weaker.

    `watched_memory` is the limit for all together that nobody but a watch enforces.
    """

    groups: tuple[Path, ...]
    rlimits: Mapping[str, int]
    notes: tuple[str, ...]
    watched_memory: int | None = None


def grant(found: Sequence[Hierarchy], universe: str, limits: Limits) -> Budget:
    """Make the groups of a universe and return its budget; raise OSError, with no group left, when that fails."""
    groups = make_groups(found, universe, limits) if found else {}
    rlimits = {"RLIMIT_CORE": 0}
    notes: list[str] = []
    watched = None
    if limits.disk is not None:
        rlimits["RLIMIT_FSIZE"] = limits.disk
    if limits.memory is not None and "memory" not in groups:
        # Not RLIMIT_AS: programs that reserve address space they never use (node, browsers) would not start.
        rlimits["RLIMIT_DATA"] = watched = limits.memory
        notes.append("memory of all together is looked at every second, and more can be had for a moment: " + _NO_GROUP)
    if limits.pids is not None and "pids" not in groups:
        rlimits["RLIMIT_NPROC"] = limits.pids
        notes.append("processes are limited for each user, not for all together: " + _NO_GROUP)
    if limits.cpus is not None and "cpu" not in groups:
        rlimits["CPUS"] = max(1, math.ceil(limits.cpus))
        notes.append("processors are limited to whole ones that others use too: " + _NO_GROUP)
    return Budget(tuple(dict.fromkeys(groups.values())), rlimits, tuple(notes), watched)
