"""Checks of a launched universe, the evidence that is kept of them, and the verdict."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_digital_twin import __version__
from amplifier_digital_twin.backends.twin import Run
from amplifier_digital_twin.checks.context import CheckContext
from amplifier_digital_twin.checks.runner import run_checks
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence

if TYPE_CHECKING:
    from amplifier_digital_twin.universe import Universe

#: What is asked inside about versions; a program that is not there says nothing.
_VERSIONS = (
    "python3 --version; git --version; uv --version; amplifier --version; "
    "sed -n 's/^PRETTY_NAME=//p' /etc/os-release; uname -sr"
)


async def check_universe(universe: Universe, folder: Path) -> dict[str, Any]:
    """Run the profile's checks and write the evidence; `verdict` of the result is `pass` or `fail`.

    Raises TwinError (`evidence_unwritable`) when the evidence has no place: a verdict without is worth nothing.
    """
    try:
        return await _check(universe, folder)
    except OSError as error:
        raise TwinError(
            "evidence_unwritable", f"{folder}: the evidence cannot be written: {error}", "name another folder"
        ) from error


async def _check(universe: Universe, folder: Path) -> dict[str, Any]:
    profile, recorder = universe.profile, universe.recorder
    evidence = Evidence(folder, universe.secret_values)
    context = CheckContext(
        twin=universe.twin,
        user=profile.user,
        environment=universe.environment_of,
        evidence=evidence,
        sockets=await universe.way_in(),
        refused_hosts=universe.refused_hosts,
        provenance=universe.provenance,
    )
    outcomes = await run_checks(profile, context, recorder)
    recorder.progress("collecting evidence")
    asked = asyncio.create_task(_versions(universe))
    try:
        await evidence.collect(universe.twin, profile.artifacts, profile.user)
        evidence.add_json("versions.json", await asked)
    finally:
        asked.cancel()
        await asyncio.wait([asked])
    evidence.add_json("status.json", await universe.status())
    evidence.add_json("timings.json", dict(recorder.timings))
    evidence.add_file("log.jsonl", universe.place.log)
    evidence.add_file("decisions.jsonl", universe.place.decisions)
    record = evidence.write_verdict(outcomes, profile=profile.name, timings=dict(recorder.timings))
    return {**record, "evidence": str(folder)}


async def keep_failure(universe: Universe, folder: Path, error: TwinError) -> None:
    """Write down what is known of a launch that failed, before everything is destroyed."""
    try:
        evidence = Evidence(folder, universe.secret_values)
        evidence.add_json("error.json", error.record())
        evidence.add_json("timings.json", dict(universe.recorder.timings))
        evidence.add_file("log.jsonl", universe.place.log)
        evidence.add_file("decisions.jsonl", universe.place.decisions)
    except OSError as fault:
        # Why the launch failed is worth more than why that cannot be written down.
        universe.recorder.progress(f"note: no evidence is kept: {fault}")


async def _versions(universe: Universe) -> dict[str, Any]:
    user = universe.profile.user
    run = Run(["/bin/sh", "-c", _VERSIONS], universe.environment_of(user), user, user.home, timeout=30)
    finished = await universe.twin.run(run)
    return {
        "amplifier-digital-twin": __version__,
        "host": {"python": platform.python_version(), "system": platform.platform()},
        "inside": finished.stdout.decode("utf-8", "replace").splitlines(),
    }
