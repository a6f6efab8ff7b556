"""What this machine can do for universes: engines, the package index, base images, and what crashes left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from amplifier_digital_twin.engines.select import all_engines
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.host_settings import read_settings
from amplifier_digital_twin.state import Home
from amplifier_kit.guard.processes.programs import find_program


def examine(home: Home) -> dict[str, Any]:
    """Return what `doctor` prints."""
    probes = {name: engine.probe() for name, engine in all_engines().items()}
    universes, faults = home.find_all()
    stale = [found for found in universes if not found.foreign_reason and not found.state.is_alive]
    usable = [name for name, probe in probes.items() if probe.is_available]
    has_builder = find_program("mmdebstrap", os.environ.get("PATH")) is not None
    remedies = [
        f"{name}, {feature}: {state}"
        for name in usable
        for feature, state in probes[name].features.items()
        if state != "yes" and feature != "rootless"
    ]
    if not usable:
        remedies = [f"{name}: {probe.reason}: {probe.remedy}" for name, probe in probes.items()]
    if not has_builder:
        remedies.append("base images cannot be made: install mmdebstrap (Debian: apt install mmdebstrap uidmap)")
    if stale:
        remedies.append("universes have crashed: `amplifier-digital-twin prune --mine` removes what they left")
    return {
        "usable": bool(usable),
        "backends": {
            name: {"available": probe.is_available, "reason": probe.reason, "features": dict(probe.features)}
            for name, probe in probes.items()
        },
        "base_images": {"mmdebstrap": has_builder},
        "package_index": _package_index(),
        "home": str(home.path),
        "bytes": {folder.name: _size(folder) for folder in (home.cache, home.evidence, home.universes)},
        "universes": len(universes),
        "stale": [found.state.id for found in stale],
        "faults": {str(folder): error.record() for folder, error in faults.items()},
        "remedies": remedies,
    }


def _package_index() -> dict[str, Any]:
    """Return the hosts from which packages come; never an address, which may hold a password."""
    try:
        settings = read_settings(os.environ)
    except TwinError as error:
        return {"hosts": [], "error": error.record()}
    return {"hosts": sorted({host for url in settings.indexes if (host := urlsplit(url).hostname)})}


def _size(folder: Path) -> int:
    """Return the bytes on disk in a directory; what cannot be read is not counted."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                pass  # removed just now
    return total
