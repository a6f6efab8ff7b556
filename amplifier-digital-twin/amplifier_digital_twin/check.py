"""Check a profile: launch it, run its checks, collect the evidence, destroy it; the verdict is pass or fail."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin import __version__
from amplifier_digital_twin.checks.run import run_checks
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.evidence import Evidence
from amplifier_digital_twin.universe import Universe

#: Asked inside; a program that is missing prints nothing.
_VERSIONS: Final = (
    "python3 --version; git --version; uv --version; amplifier --version; "
    "sed -n 's/^PRETTY_NAME=//p' /etc/os-release; uname -sr"
)


def check_universe(universe: Universe, folder: Path) -> dict[str, Any]:
    """Run the profile's checks in a launched universe and write the evidence; return the verdict.

    Raises TwinError (`evidence_unwritable`) when the evidence cannot be kept: a verdict without it proves nothing.
    """
    try:
        evidence = Evidence(folder, universe.secrets.values())
        with universe.log.timed("checks"):
            outcomes = run_checks(universe, evidence)
        universe.log.progress("collecting evidence")
        with universe.log.timed("evidence"):
            profile = universe.profile
            evidence.collect(universe.engine, universe.container, profile.user, profile.artifacts)
            inside = universe.run(_VERSIONS, timeout=60).stdout.decode("utf-8", "replace").splitlines()
        host = {"python": platform.python_version(), "system": platform.platform()}
        evidence.add_json("versions.json", {"amplifier-digital-twin": __version__, "host": host, "inside": inside})
        evidence.add_json("status.json", universe.status())
        _add_logs(universe, evidence)
        timings = dict(universe.log.timings)
        return {**evidence.write_verdict(outcomes, profile=profile.name, timings=timings), "evidence": str(folder)}
    except OSError as error:
        said = f"{folder}: the evidence cannot be written: {error}"
        raise TwinError("evidence_unwritable", said, "name another directory with --evidence") from error


def keep_failure(universe: Universe, folder: Path, error: TwinError) -> None:
    """Keep what is known of a launch that failed, before everything is destroyed."""
    try:
        evidence = Evidence(folder, universe.secrets.values())
        evidence.add_json("error.json", error.record())
        _add_logs(universe, evidence)
    except OSError as fault:
        # Why the launch failed matters more than why that cannot be written down.
        universe.log.progress(f"note: no evidence is kept: {fault}")


def _add_logs(universe: Universe, evidence: Evidence) -> None:
    evidence.add_json("timings.json", dict(universe.log.timings))
    evidence.add_file("log.jsonl", universe.folder.log)
    evidence.add_file("decisions.jsonl", universe.folder.requests)
    evidence.add_file("services.log", universe.folder.services_log)
