"""Base images: which one a profile means, and where the host's Debian packages come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_digital_twin import base_image
from amplifier_digital_twin.base_image import Mirror, apt_sources, debian_mirror, ensure_image, image_key, suite_of
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


def test_sources_of_both_forms_are_read(tmp_path: Path) -> None:
    """Debian's own archive is found in either form; discs, other archives and disabled sources are not."""
    (tmp_path / "sources.list").write_text(
        "# a comment\ndeb cdrom:[Debian]/ bookworm main\ndeb [arch=amd64] https://user:word@mirror.example/debian "
        "bookworm main\ndeb-src https://mirror.example/debian bookworm main\n",
        encoding="utf-8",
    )
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "more.sources").write_text(
        "Types: deb\nURIs: https://other.example/apt\nSuites: stable\n\n"
        "Types: deb\nURIs:\n https://security.example/debian-security\nSuites: bookworm-security\n\n"
        "Enabled: no\nTypes: deb\nURIs: https://off.example/debian\nSuites: bookworm\n",
        encoding="utf-8",
    )
    mirror = debian_mirror(apt_sources(tmp_path))
    assert mirror == Mirror("https://user:word@mirror.example/debian", "https://security.example/debian-security")


def test_credentials_of_a_mirror_do_not_stay_in_the_image() -> None:
    """The sources that are left in an image have no name and no password."""
    mirror = Mirror("https://user:word@mirror.example/debian", None)
    assert "word" in mirror.lines("bookworm")
    assert mirror.without_credentials().lines("bookworm") == (
        "deb https://mirror.example/debian bookworm main\ndeb https://mirror.example/debian bookworm-updates main\n"
    )
