"""`amplifier-digital-twin doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from amplifier_digital_twin.cli.answers import answer, say
from amplifier_digital_twin.cli.shown import shown
from amplifier_digital_twin.cli.tree import FAIL, PASS
from amplifier_digital_twin.probing import Probed, probe_all
from amplifier_digital_twin.registry import Registry


@click.command()
def doctor() -> int:
    """Say what can be done on this machine and why something cannot: exit code 1 when no universe can be made."""
    import asyncio

    registry = Registry.find()
    probed, index = asyncio.run(_ask_around())
    listing = registry.all()
    stale = [found for found in listing.universes if found.is_mine and not found.is_alive]
    usable = [name for name, item in probed.items() if item.probe.is_available]
    remedies = _remedies(probed, bool(stale))
    answer(
        {
            "usable": bool(usable),
            "backends": {name: _backend_record(item) for name, item in probed.items()},
            "package_index": index,
            "home": str(registry.folder),
            "bytes": {folder.name: _size(folder) for folder in (registry.cache, registry.evidence, registry.universes)},
            "universes": len(listing.universes),
            "stale": [shown(found) for found in stale],
            "faults": {str(folder): error.record() for folder, error in listing.faults.items()},
            "remedies": remedies,
        }
    )
    for remedy in remedies:
        say(f"→ {remedy}")
    return PASS if usable else FAIL


def _backend_record(item: Probed) -> dict[str, Any]:
    record: dict[str, Any] = {
        "available": item.probe.is_available,
        "reason": item.probe.reason,
        "features": dict(item.probe.features),
        "images": list(item.images),
    }
    return {**record, "images_fault": item.images_fault} if item.images_fault else record


async def _ask_around() -> tuple[dict[str, Probed], dict[str, Any]]:
    return await probe_all(), await _package_index()


async def _package_index() -> dict[str, Any]:
    """Return the hosts from which packages come; never an address, which may hold a password."""
    from amplifier_foundation.errors import FoundationError

    try:
        from amplifier_digital_twin.services.host_index import HostIndex

        index = await HostIndex.from_host(os.environ)
        return {"hosts": sorted(host.rpartition("@")[2] for host in index.hosts())}
    except (FoundationError, OSError, ValueError) as error:
        return {"hosts": [], "fault": f"{type(error).__name__}: {error}"}


def _size(folder: Path) -> int:
    """Return the bytes in a folder; what cannot be looked into is not counted."""
    total = 0
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            pass  # removed while this looks, closed, or nested deeper than a path can name
    return total


def _remedies(probed: dict[str, Probed], has_stale: bool) -> list[str]:
    """Return what can be done: about what usable backends lack, or about every one when none is usable."""
    usable = {name: item for name, item in probed.items() if item.probe.is_available}
    remedies = [
        f"{name}, {feature}: {state}"
        for name, item in usable.items()
        for feature, state in item.probe.features.items()
        if state != "yes"
    ]
    if not usable:
        remedies = [f"{name}: {item.probe.reason}" for name, item in probed.items()]
    if has_stale:
        remedies.append("universes have crashed: `amplifier-digital-twin prune --mine` removes what they left")
    return remedies
