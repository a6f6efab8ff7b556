"""Every way to make twins, in the order in which they are tried."""

from __future__ import annotations

from pathlib import Path

from amplifier_digital_twin.backends.twin import Backend


def all_backends(cache: Path | None = None) -> dict[str, Backend]:
    """Return the backends by name, the one that needs no engine first; none is asked anything yet.

    What launches found out about this machine is remembered in the cache; without one everything is tried out.
    """
    from amplifier_digital_twin.backends.docker import docker_backend
    from amplifier_digital_twin.backends.incus import incus_backend
    from amplifier_digital_twin.backends.podman import podman_backend
    from amplifier_digital_twin.embedded.backend import EmbeddedBackend
    from amplifier_digital_twin.remembered import Remembered

    remembered = Remembered(cache / "answers") if cache is not None else None
    found: tuple[Backend, ...] = (EmbeddedBackend(remembered), podman_backend(), docker_backend(), incus_backend())
    return {backend.name: backend for backend in found}
