"""Every way to make twins, in the order in which they are tried."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amplifier_digital_twin.backends.twin import Backend

#: The one that needs no engine first.
NAMES: Final = ("embedded", "podman", "docker", "incus")


def backend_named(name: str, cache: Path | None = None) -> Backend:
    """Return one of `NAMES`, reading no code of the others; it is not asked anything yet.

    What launches found out about this machine is remembered in the cache; without one everything is tried out.
    """
    if name == "embedded":
        from amplifier_digital_twin.embedded.backend import EmbeddedBackend
        from amplifier_digital_twin.remembered import Remembered

        return EmbeddedBackend(Remembered(cache / "answers") if cache is not None else None)
    if name == "podman":
        from amplifier_digital_twin.backends.podman import podman_backend

        return podman_backend()
    if name == "docker":
        from amplifier_digital_twin.backends.docker import docker_backend

        return docker_backend()
    if name == "incus":
        from amplifier_digital_twin.backends.incus import incus_backend

        return incus_backend()
    raise KeyError(name)


def all_backends(cache: Path | None = None) -> dict[str, Backend]:
    """Return the backends by name."""
    return {name: backend_named(name, cache) for name in NAMES}
