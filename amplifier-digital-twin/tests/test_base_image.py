"""Base images: which one a profile means, and where the host's Debian packages come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_digital_twin import base_image
from amplifier_digital_twin.base_image import debian_suites, ensure_image, image_key, sources_list, suite_of
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base

from .fake_engine import HostEngine


@pytest.mark.parametrize(
    ("image", "suite"),
    [("debian:12", "bookworm"), ("debian:trixie-slim", "trixie"), ("debian:9", None), ("ubuntu:24.04", None)],
)
def test_debian_images_are_made_here(image: str, suite: str | None) -> None:
    """A release that mmdebstrap can make is made; any other image is the engine's."""
    assert suite_of(image) == suite


def test_the_host_is_a_debian() -> None:
    """`host` means a Debian of the host's release, or the current stable one."""
    assert suite_of("host") in base_image.RELEASES.values()


def test_what_is_in_a_base_decides_its_key() -> None:
    """Packages, tools and release change the image; the order of packages does not."""
    keys = [
        image_key(Base(image="debian:12")),
        image_key(Base(image="debian:13")),
        image_key(Base(image="debian:12", packages=("git",))),
        image_key(Base(image="debian:12", packages=("git", "make"))),
    ]
    assert len(set(keys)) == 4
    assert image_key(Base(image="debian:12", packages=("make", "git"))) == keys[3]
    assert image_key(Base(image="debian:12", tools=("uv",))) == keys[0]


def test_packages_cannot_be_added_to_a_foreign_image(tmp_path: Path) -> None:
    """What an image of the engine lacks is an error with the remedy, never silently missing."""
    with pytest.raises(TwinError) as caught:
        ensure_image(HostEngine(), Base(image="ubuntu:24.04", packages=("git",)), tmp_path, print)
    assert caught.value.code == "image_unavailable"


def test_only_debians_own_archives_count() -> None:
    """Of apt's sources, discs and other archives are not Debian's, and no name or password of one is kept."""
    targets = [
        ["bookworm", "cdrom:///x"],
        ["stable", "https://other.example/apt"],
        ["bookworm", "https://user:word@mirror.example/debian"],
        ["bookworm-security", "https://security.example/debian-security"],
    ]
    suites = debian_suites(targets)
    assert sources_list(suites, "trixie").splitlines() == [
        "deb https://mirror.example/debian trixie main",
        "deb https://mirror.example/debian trixie-updates main",
        "deb https://security.example/debian-security trixie-security main",
    ]
