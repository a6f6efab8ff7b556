"""Every way to make twins, in the order in which they are tried."""

from __future__ import annotations

from amplifier_digital_twin.backends.twin import Backend


def all_backends() -> dict[str, Backend]:
    """Return the backends by name, the one that needs no engine first; none is asked anything yet."""
    from amplifier_digital_twin.backends.docker import docker_backend
    from amplifier_digital_twin.backends.incus import incus_backend
    from amplifier_digital_twin.backends.podman import podman_backend
    from amplifier_digital_twin.embedded.backend import EmbeddedBackend

    found: tuple[Backend, ...] = (EmbeddedBackend(), podman_backend(), docker_backend(), incus_backend())
    return {backend.name: backend for backend in found}
