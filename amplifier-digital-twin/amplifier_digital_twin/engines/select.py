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
    """Return an engine; raise TwinError for a name that is none."""
    if name == "embedded":
        remedy = "use podman (`apt install podman runc`), docker or incus; `doctor` shows what works here"
        raise TwinError("backend_unknown", "the embedded runtime no longer exists", remedy)
    engines = all_engines()
    if name not in engines:
        raise TwinError("backend_unknown", f"unknown engine {name!r}", f"one of: {', '.join(engines)}")
    return engines[name]


def select_engine(profile: Profile, backend: str | None = None) -> tuple[Engine, tuple[str, ...]]:
    """Return the engine for a profile, and notes about what it cannot enforce.

    Raises TwinError when none works, or when isolation is strict and a limit cannot be enforced.
    """
    wanted = backend or profile.backend
    candidates = all_engines().values() if wanted == "auto" else [engine_named(wanted)]
    reasons: list[str] = []
    remedies: list[str] = []
    for engine in candidates:
        probe = engine.probe()
        if probe.is_available:
            return engine, _weaknesses(profile, engine, probe)
        reasons.append(f"{engine.name}: {probe.reason}")
        remedies.append(f"{engine.name}: {probe.remedy}")
    raise TwinError("backend_unavailable", "; ".join(reasons), "; ".join(remedies))


def _weaknesses(profile: Profile, engine: Engine, probe: Probe) -> tuple[str, ...]:
    limits = profile.limits
    wanted = [name for name in ("memory", "pids", "cpus", "disk") if getattr(limits, name) is not None]
    missing = [f"{name} ({probe.features.get(name)})" for name in wanted if probe.features.get(name) != "yes"]
    if limits.disk is not None and profile.user.uid == 0:
        missing.append("disk (no: root can write to the whole file system)")
    lacking = [name for name in profile.require if probe.features.get(name) != "yes"]
    if lacking:
        known = ", ".join(probe.features)
        said = f"{engine.name} lacks what the profile requires: {', '.join(lacking)} (it reports: {known})"
        raise TwinError("feature_missing", said, "take it out of `require`, or use another machine")
    if missing and profile.isolation == "strict":
        said = f"{engine.name} cannot enforce: {'; '.join(missing)}"
        names = ", ".join(part.partition(" ")[0] for part in missing)
        remedy = f"set `limits: {{{names}: null}}` or `isolation: best-effort`, or use a machine that can"
        raise TwinError("feature_missing", said, remedy)
    return tuple(f"not limited: {part}" for part in missing)
