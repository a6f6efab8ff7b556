"""What every backend says about this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_digital_twin.backends.twin import Probe

if TYPE_CHECKING:
    from amplifier_digital_twin.backends.twin import Backend
    from amplifier_digital_twin.profile.model import Profile

#: An engine whose daemon hangs shall not hang everybody else.
_SECONDS: Final = 30.0


class Probed(NamedTuple):
    """What a backend can do here, and which images it can provide; `images_fault` says why they are not known."""

    probe: Probe
    images: Sequence[str]
    images_fault: str


async def probe_all() -> dict[str, Probed]:
    """Ask all backends at once."""
    from amplifier_digital_twin.backends.select import all_backends

    backends = all_backends()
    found = await asyncio.gather(*(_probe(backend) for backend in backends.values()))
    return dict(zip(backends, found, strict=True))


async def _probe(backend: Backend) -> Probed:
    try:
        async with asyncio.timeout(_SECONDS):
            probe = await backend.probe()
    except TimeoutError:
        probe = Probe(False, f"it did not answer in {_SECONDS:g} s: see whether its daemon hangs", {})
    if not probe.is_available:
        return Probed(probe, (), "")
    try:
        async with asyncio.timeout(_SECONDS):
            return Probed(probe, await backend.images(), "")
    except Exception as error:
        return Probed(probe, (), f"{type(error).__name__}: {error}")


async def plan_here(profile: Profile, base: str | None) -> dict[str, Any]:
    """Return how a profile would be made on this machine; raises TwinError when it cannot be."""
    from amplifier_digital_twin.plan import plan

    probed = await probe_all()
    images = {name: item.images for name, item in probed.items() if not item.images_fault}
    made = plan(profile, {name: item.probe for name, item in probed.items()}, base, images)
    return {
        "backend": made.backend,
        "base": made.profile.base.image,
        "reasons": dict(made.reasons),
        "notes": list(made.notes),
    }
