"""Which engine makes a universe: the one that the profile asks for, or the first that works here."""

from __future__ import annotations

from amplifier_digital_twin.engines.containers import Docker, Podman
from amplifier_digital_twin.engines.engine import Engine, Probe
from amplifier_digital_twin.engines.incus import Incus
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Profile


def all_engines() -> dict[str, Engine]:
    """Return the engines by name, the preferred one first."""
    return {engine.name: engine for engine in (Podman(), Docker(), Incus())}


def engine_named(name: str) -> Engine:
    """Return an engine; raise TwinError for an unknown name."""
    engines = all_engines()
    if name not in engines:
        said = "the embedded runtime no longer exists" if name == "embedded" else f"unknown engine {name!r}"
        raise TwinError("backend_unknown", said, f"one of: {', '.join(engines)}; `doctor` shows what works here")
    return engines[name]


def select_engine(profile: Profile, backend: str | None = None) -> tuple[Engine, list[str]]:
    """Return the engine for a profile, and notes about what it cannot enforce.

    Raises TwinError when none works, or when isolation is strict and a limit cannot be enforced.
    """
    wanted = backend or profile.backend
    failed: dict[str, Probe] = {}
    for engine in all_engines().values() if wanted == "auto" else [engine_named(wanted)]:
        probe = engine.probe()
        if probe.is_available:
            return engine, _weaknesses(profile, engine, probe)
        failed[engine.name] = probe
    reasons = "; ".join(f"{name}: {probe.reason}" for name, probe in failed.items())
    remedies = "; ".join(f"{name}: {probe.remedy}" for name, probe in failed.items())
    raise TwinError("backend_unavailable", reasons, remedies)


def _weaknesses(profile: Profile, engine: Engine, probe: Probe) -> list[str]:
    limits, features = profile.limits, probe.features
    lacking = [name for name in profile.require if features.get(name) != "yes"]
    if lacking:
        said = (
            f"{engine.name} lacks what the profile requires: {', '.join(lacking)} (it reports: {', '.join(features)})"
        )
        raise TwinError("feature_missing", said, "take it out of `require`, or use another machine")
    wanted = [name for name in ("memory", "pids", "cpus", "disk") if getattr(limits, name) is not None]
    missing = {name: features.get(name) for name in wanted if features.get(name) != "yes"}
    if limits.disk is not None and profile.user.uid == 0:
        missing["disk"] = "no: root can write to the whole file system"
    if missing and profile.isolation == "strict":
        said = "; ".join(f"{name} ({why})" for name, why in missing.items())
        remedy = f"set `limits: {{{', '.join(missing)}: null}}` or `isolation: best-effort`, or use a machine that can"
        raise TwinError("feature_missing", f"{engine.name} cannot enforce: {said}", remedy)
    return [f"not limited: {name} ({why})" for name, why in missing.items()]
