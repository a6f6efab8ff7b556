"""Which backend makes a universe, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from amplifier_digital_twin.backends.podman import Podman
from amplifier_digital_twin.backends.twin import Probe
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.plan import ISOLATING, plan
from amplifier_digital_twin.profile.model import Base, Profile, Tar

_YES = Probe(True, "", {"userns": "yes", "overlay": "yes"})
_NO = Probe(False, "the program is not installed", {})
_WEAK = Probe(True, "", {"userns": "yes", "overlay": "the kernel has none"})
_IMAGES = {"embedded": ["host", "debian:12"], "podman": ["debian:12", "docker.io/library/ubuntu:24.04"]}


def _profile(**parts: object) -> Profile:
    return Profile(name="x", path=Path("/x.yaml"), **parts)  # type: ignore[arg-type]


def _probes(**probes: Probe) -> Mapping[str, Probe]:
    return dict(reversed(probes.items()))


def test_auto_takes_the_first_that_can() -> None:
    """The order is fixed, whatever the order of the probes, and every refusal is told."""
    planned = plan(_profile(), _probes(embedded=_NO, podman=_YES, docker=_YES))
    assert planned.backend == "podman"
    assert planned.reasons == {"embedded": "the program is not installed", "podman": "the first that can do it"}


def test_a_named_backend_is_taken_or_nothing() -> None:
    """No other backend is a substitute for the one that was asked for."""
    with pytest.raises(TwinError, match="the backend 'podman' cannot make the universe 'x' here: podman: the program"):
        plan(_profile(backend="podman"), _probes(embedded=_YES, podman=_NO))
    assert plan(_profile(backend="docker"), _probes(embedded=_YES, docker=_YES)).backend == "docker"
    with pytest.raises(TwinError) as caught:
        plan(_profile(backend="podmn"), _probes(embedded=_YES, podman=_YES))
    assert (caught.value.code, caught.value.remedy) == ("backend_unknown", "did you mean 'podman'?")


def test_required_features_must_be_there() -> None:
    """A backend that lacks one is passed over; when all do, every reason is told."""
    wanted = _profile(require=("overlay",))
    assert plan(wanted, _probes(embedded=_WEAK, podman=_YES)).backend == "podman"
    with pytest.raises(TwinError) as caught:
        plan(wanted, _probes(embedded=_WEAK, podman=_NO))
    assert caught.value.code == "feature_missing"
    assert "embedded: overlay is required: the kernel has none" in caught.value.message
    with pytest.raises(TwinError, match="is required: it is not known there"):
        plan(_profile(require=("magic",)), _probes(embedded=_YES))


def test_strict_isolation_takes_no_substitute() -> None:
    """What isolation rests on must be there, unless the profile asks for less."""
    for wall in ("userns", "seccomp"):
        probes = {"embedded": Probe(True, "", {wall: "not permitted"}), "docker": _NO}
        with pytest.raises(TwinError, match=f"isolation is strict, and {wall} cannot be had: not permitted") as caught:
            plan(_profile(), probes)
        assert caught.value.code == "feature_missing"
        planned = plan(_profile(isolation="best-effort"), probes)
        assert planned.notes == (f"{wall}: not permitted",)


def test_walls_that_cannot_be_put_up_are_a_missing_feature() -> None:
    """A backend that is of no use for want of a wall is refused with the code of a missing feature."""
    probes = {"embedded": Probe(False, "no universe can be made: not permitted", {"userns": "not permitted"})}
    with pytest.raises(TwinError, match="not permitted") as caught:
        plan(_profile(), probes)
    assert caught.value.code == "feature_missing"


def test_limits_that_are_weaker_are_no_wall() -> None:
    """A machine without control groups has strict universes all the same, and is told of the limits."""
    planned = plan(_profile(), {"embedded": Probe(True, "", {"userns": "yes", "cgroups": "no group"})})
    assert planned.notes == ("cgroups: no group",)


async def test_walls_are_called_as_backends_call_them() -> None:
    """What strict isolation rests on is what the embedded backend reports, and part of what engines do."""
    from amplifier_digital_twin.embedded.backend import EmbeddedBackend

    assert set((await EmbeddedBackend().probe()).features) >= ISOLATING
    info = {"cgroupVersion": "v2", "ociRuntime": {"name": "crun"}, "cgroupControllers": ["cpu", "memory", "pids"]}
    reported = Podman()._judge(info).features
    if reported or os.geteuid() == 0:
        assert "userns" in set(reported) & ISOLATING


def test_what_is_weaker_is_noted() -> None:
    """A feature that is missing but not required is told."""
    assert plan(_profile(), {"embedded": _WEAK}).notes == ("overlay: the kernel has none",)


def test_an_image_decides_between_backends() -> None:
    """The first backend that can provide the image is taken; names of images may be written in short."""
    probes = _probes(embedded=_YES, podman=_YES)
    planned = plan(_profile(base=Base("ubuntu:24.04")), probes, images=_IMAGES)
    assert planned.backend == "podman"
    assert planned.reasons["embedded"] == "it cannot provide the image 'ubuntu:24.04'"
    assert plan(_profile(base=Base("debian:12")), probes, images=_IMAGES).backend == "embedded"
    assert plan(_profile(base=Base("any")), probes, images={"embedded": ["host"], "podman": ["*"]}).backend == "podman"


def test_an_image_that_cannot_be_had_is_refused_with_those_that_can() -> None:
    """The error names what every available backend provides, and the way around."""
    with pytest.raises(TwinError) as caught:
        plan(_profile(base=Base("fedora:40")), _probes(embedded=_YES, podman=_YES, docker=_NO), images=_IMAGES)
    assert caught.value.code == "image_unavailable"
    assert "embedded: host, debian:12; podman: debian:12, docker.io/library/ubuntu:24.04" in caught.value.message
    assert "--base host" in caught.value.remedy


def test_a_base_can_be_overridden() -> None:
    """`--base host` replaces image and archive, and is noted."""
    profile = _profile(base=Base("tar", Tar(Path("/x.tar"), "0" * 64), ("git",)))
    planned = plan(profile, {"embedded": _YES}, "host", _IMAGES)
    assert planned.profile.base == Base("host", None, ("git",))
    assert planned.notes == ("base: host instead of tar, as asked for",)
    with pytest.raises(TwinError, match="a root file system from a tar archive cannot be had here"):
        plan(profile, {"embedded": _YES}, None, _IMAGES)


def test_no_backend_at_all_is_said() -> None:
    """Without probes there is still a reason."""
    with pytest.raises(TwinError, match="there is no backend at all"):
        plan(_profile(), {})
