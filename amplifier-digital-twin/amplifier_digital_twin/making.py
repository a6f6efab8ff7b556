"""From a request to a universe: a backend is chosen, and nothing made yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_digital_twin.backends.select import NAMES, backend_named
from amplifier_digital_twin.backends.twin import Backend, Probe
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.plan import ANY_IMAGE, Plan, plan
from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.state import Place
from amplifier_digital_twin.universe import Universe


async def make_universe(
    place: Place, request: Mapping[str, Any], recorder: Recorder, environ: Mapping[str, str]
) -> Universe:
    """Return the universe that a request asks for; raise TwinError when the machine does not allow it."""
    profile: Profile = request["profile"]
    if request.get("backend"):
        profile = dataclasses.replace(profile, backend=str(request["backend"]))
    planned, backend = await choose(profile, request.get("base"), place.cache)
    recorder.event("planned", backend=planned.backend, reasons=dict(planned.reasons), notes=list(planned.notes))
    return Universe(planned, backend, place, recorder, environ, Path(request["evidence"]))


async def choose(profile: Profile, base: str | None, cache: Path | None = None) -> tuple[Plan, Backend]:
    """Return the plan and its backend; engines are asked only when the embedded one will not do."""
    backends: dict[str, Backend] = {}
    first = "embedded" if profile.backend == "auto" else profile.backend
    names = [first] if first in NAMES else []
    rest = [name for name in NAMES if name not in names] if profile.backend == "auto" or not names else []
    probes: dict[str, Probe] = {}
    images: dict[str, list[str]] = {}
    for batch in ([names] if names else []) + ([rest] if rest else []):
        for name in batch:
            backends[name] = backend_named(name, cache)
            probes[name] = await backends[name].probe()
            if probes[name].is_available:
                images[name] = list(await backends[name].images()) or [ANY_IMAGE]
        try:
            planned = plan(profile, probes, base, images)
        except TwinError:
            if batch is names and rest:
                continue
            raise
        return planned, backends[planned.backend]
    planned = plan(profile, probes, base, images)
    return planned, backends[planned.backend]
