"""Everything that decides what a probe of this machine finds, so that what it found counts until one of it changes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from amplifier_digital_twin.remembered import file_facts

#: Settings of a running system that allow or forbid namespaces, or parts of them.
_SETTINGS: Final = (
    "kernel/random/boot_id",
    "kernel/osrelease",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/seccomp/actions_avail",
    "user/max_user_namespaces",
    "user/max_mnt_namespaces",
    "user/max_pid_namespaces",
    "user/max_net_namespaces",
)
#: What bubblewrap and the maps of ids are made with.
_FILES: Final = ("/etc/subuid", "/etc/subgid", "/usr/bin/newuidmap", "/usr/bin/newgidmap")


def probe_facts(program: str) -> tuple[object, ...]:
    """Return the facts of this boot, this user and this bubblewrap."""
    own = (os.geteuid(), os.getegid(), os.getgroups(), os.readlink("/proc/self/ns/user"), _confinement())
    settings = tuple(_read(Path("/proc/sys", name)) for name in _SETTINGS)
    files = tuple(file_facts(path) for path in (program, sys.executable, *_FILES))
    return ("probe", own, settings, files)


def _confinement() -> str:
    """Return what this process itself is held in: its capabilities, filters and profile."""
    kept = ("CapBnd", "CapEff", "NoNewPrivs", "Seccomp")
    lines = _read(Path("/proc/self/status")).splitlines()
    return "\n".join([*(line for line in lines if line.startswith(kept)), _read(Path("/proc/self/attr/current"))])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # there is no such setting here
