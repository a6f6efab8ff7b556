"""Decide which backend makes a universe, and say why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from amplifier_digital_twin.backends.twin import Probe
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Profile
from amplifier_digital_twin.value import Value
from amplifier_foundation.errors import did_you_mean

#: Which backend `auto` takes: the first of these that can do it.
ORDER: Final = ("embedded", "podman", "docker", "incus")
#: Features that isolation itself rests on: where `isolation: strict` stands, no substitute is taken for them.
#: The walls that have no name here, namespaces and capabilities, are there or the backend is not available at all.
ISOLATING: Final = frozenset({"userns", "seccomp"})
#: What a backend says that can have any image.
ANY_IMAGE: Final = "*"


class Plan(Value):
    """A profile as it will be made, by whom, why (by backend), and what is different from what was asked."""

    profile: Profile
    backend: str
    reasons: Mapping[str, str]
    notes: tuple[str, ...]


def plan(
    profile: Profile,
    probes: Mapping[str, Probe],
    base_override: str | None = None,
    images: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """Return the plan for a profile on this machine.

    `images` says which base images each available backend can provide (`*`: any); a backend that is not in it is
    taken to provide every image. Raises TwinError: `backend_unknown`, `backend_unavailable` or
    `feature_missing` with every reason, `image_unavailable` with the images that can be had.
    """
    notes: list[str] = []
    if base_override is not None and base_override != profile.base.image:
        notes.append(f"base: {base_override} instead of {profile.base.image}, as asked for")
        profile = replace(profile, base=replace(profile.base, image=base_override, tar=None))
    candidates = _candidates(profile, probes)
    reasons = {name: _objection(profile, probes[name]) for name in candidates}
    able = [name for name in candidates if not reasons[name]]
    if not able:
        lacks = any(probes[name].features and _lack(profile, probes[name]) for name in candidates)
        raise _unavailable(profile, reasons, lacks_feature=lacks)
    for name in able:
        if not _provides(profile.base, (images or {}).get(name, (ANY_IMAGE,))):
            reasons[name] = f"it cannot provide the image {profile.base.image!r}"
    taken = next((name for name in able if not reasons[name]), None)
    if taken is None:
        raise _no_image(profile, able, images or {})
    reasons[taken] = "named by the profile" if profile.backend != "auto" else "the first that can do it"
    notes.extend(_weaker(probes[taken]))
    return Plan(profile, taken, {name: reason for name, reason in reasons.items() if reason}, tuple(notes))


def _candidates(profile: Profile, probes: Mapping[str, Probe]) -> list[str]:
    if profile.backend == "auto":
        return [name for name in ORDER if name in probes] + sorted(set(probes) - set(ORDER))
    if profile.backend not in probes:
        hint = did_you_mean(profile.backend, sorted(probes)) if probes else "none is installed"
        raise TwinError("backend_unknown", f"there is no backend {profile.backend!r}", hint)
    return [profile.backend]


def _objection(profile: Profile, probe: Probe) -> str:
    """Return why a backend cannot be taken; empty when it can."""
    if not probe.is_available:
        return probe.reason or "it is not available"
    return _lack(profile, probe)


def _lack(profile: Profile, probe: Probe) -> str:
    """Return which feature that the profile insists on a backend has not, and why; empty when it has all."""
    for feature in profile.require:
        state = probe.features.get(feature, "it is not known there")
        if state != "yes":
            return f"{feature} is required: {state}"
    for feature, state in probe.features.items():
        if profile.isolation == "strict" and feature in ISOLATING and state != "yes":
            return f"isolation is strict, and {feature} cannot be had: {state}"
    return ""


def _weaker(probe: Probe) -> list[str]:
    return [f"{feature}: {state}" for feature, state in sorted(probe.features.items()) if state != "yes"]


def _unavailable(profile: Profile, reasons: Mapping[str, str], *, lacks_feature: bool) -> TwinError:
    listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "there is no backend at all"
    asked = "no backend can" if profile.backend == "auto" else f"the backend {profile.backend!r} cannot"
    message = f"{asked} make the universe {profile.name!r} here: {listed}"
    if not lacks_feature:
        return TwinError("backend_unavailable", message, "see 'amplifier-digital-twin doctor'")
    return TwinError(
        "feature_missing",
        message,
        "see 'amplifier-digital-twin doctor'; remove from the profile's 'require' what you can do without, or write "
        "'isolation: best-effort'",
    )


def _no_image(profile: Profile, able: Sequence[str], images: Mapping[str, Sequence[str]]) -> TwinError:
    asked = "a root file system from a tar archive" if profile.base.tar else f"the image {profile.base.image!r}"
    listed = "; ".join(f"{name}: {', '.join(images.get(name, ())) or 'none'}" for name in able)
    return TwinError(
        "image_unavailable",
        f"{asked} cannot be had here; what can: {listed}",
        "name one of these under 'base', or take another base this time with --base host",
    )


def _provides(base: Base, images: Sequence[str]) -> bool:
    wanted = "tar" if base.tar is not None else _whole_name(base.image)
    return ANY_IMAGE in images or wanted in {_whole_name(image) for image in images}


def _whole_name(image: str) -> str:
    """Return an image's name with nothing left out, so that two ways to write it are equal."""
    if image in ("host", "tar"):
        return image
    for registry in ("docker.io/library/", "docker.io/", "library/", "localhost/"):
        image = image.removeprefix(registry)
    last = image.rsplit("/", 1)[-1]
    return image if ":" in last or "@" in last else f"{image}:latest"
