"""Base systems: made once, kept, and refused with a reason where they cannot be made."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tarfile
from pathlib import Path

import pytest

import amplifier_digital_twin.base_systems as base_systems
from amplifier_digital_twin.base_systems import builder, check_host_packages, check_names, debian_suite, root_archive
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Tar

#: Stands at the edge of the world: it would fetch a system over the network.
_PRETEND = """#!/bin/sh
echo "$@" >> "$LOG"
for word in "$@"; do case "$word" in *.tar) out=$word ;; *.list) [ -f "$word" ] && cat "$word" >> "$LOG" ;; esac; done
sleep 0.3
if [ -n "$FAIL" ]; then echo "E: Unable to locate package nonsense"; exit 25; fi
tar -cf "$out" -C "$(dirname "$LOG")" marker
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pretended mmdebstrap on the path; what it was called with is in the file."""
    program = tmp_path / "programs" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text(_PRETEND, encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "marker").write_text("made", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "log"


async def make(tmp_path: Path, *packages: str) -> Path:
    """Make a base system in this test's cache."""
    return await root_archive(Base("debian:12", packages=packages), tmp_path / "a cache", lambda text: None)


async def test_two_at_once_make_it_once(tmp_path: Path, log: Path) -> None:
    """Callers at the same time wait for one maker, and later ones find what it made."""
    paths = await asyncio.gather(*(make(tmp_path) for _ in range(3)))
    assert len({*paths, await make(tmp_path)}) == 1
    assert sum("--variant=minbase" in line for line in log.read_text().splitlines()) == 1
    with tarfile.open(paths[0]) as archive:
        assert archive.getnames() == ["marker"]
    assert paths[0].stat().st_mode & 0o777 == 0o600


async def test_packages_are_part_of_the_name(tmp_path: Path, log: Path) -> None:
    """Other packages make another archive; their order does not."""
    one, two, three = [await make(tmp_path, *packages) for packages in (("git",), ("git", "curl"), ("curl", "git"))]
    assert one != two == three
    assert "ca-certificates,curl,git" in log.read_text()


async def test_a_failure_leaves_nothing_and_says_why(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the maker fails its reason is told, no half archive stays, and the next call tries again."""
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(TwinError) as caught:
        await make(tmp_path)
    assert caught.value.code == "base_unavailable"
    assert "Unable to locate package nonsense" in caught.value.message
    assert "host" in caught.value.remedy
    assert [path.suffix for path in (tmp_path / "a cache" / "bases").iterdir()] == [".lock"]
    monkeypatch.delenv("FAIL")
    assert (await make(tmp_path)).is_file()


async def test_a_mirrors_password_is_on_no_command_line(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address with the password reaches the maker in a file, and the system gets the one without."""
    from amplifier_digital_twin.apt_sources import AptSource

    source = AptSource("https://me:s3cret@mirror.example/debian", ("bookworm",))
    monkeypatch.setattr(base_systems, "apt_sources", lambda: [source])
    await make(tmp_path)
    words, *lines = log.read_text().splitlines()
    assert "s3cret" not in words
    assert lines[0] == "deb https://me:s3cret@mirror.example/debian bookworm main"
    assert "--customize-hook=upload" in words


@pytest.mark.parametrize(
    ("image", "suite"),
    [
        ("debian:12", "bookworm"),
        ("debian:trixie", "trixie"),
        ("debian:12-slim", "bookworm"),
        ("debian:7", None),
        ("host", None),
        ("ubuntu:12", None),
        ("debian", None),
    ],
)
def test_images_that_are_releases(image: str, suite: str | None) -> None:
    """Numbers and names of Debian's releases are known, other images are not."""
    assert debian_suite(image) == suite


async def test_another_image_is_refused(tmp_path: Path) -> None:
    """An image that is no release names those that are."""
    with pytest.raises(TwinError) as caught:
        await root_archive(Base("alpine:3"), tmp_path, lambda text: None)
    assert caught.value.code == "image_unavailable"
    assert "debian:12" in caught.value.remedy


@pytest.mark.parametrize("name", ["--mode=root", "a,b", "Git", "", "x"])
def test_what_is_no_package_is_refused(name: str) -> None:
    """A name that the maker would read as an option or as two is an error of the profile."""
    with pytest.raises(TwinError) as caught:
        check_names(["git", name])
    assert caught.value.code == "profile_invalid"


async def test_an_archive_is_checked(tmp_path: Path) -> None:
    """A tar base is taken as it is when its hash holds, and refused when not, or when it is not there."""
    path = tmp_path / "my root.tar"
    path.write_bytes(b"content")
    good = hashlib.sha256(b"content").hexdigest()
    assert await root_archive(Base("tar", Tar(path, good.upper())), tmp_path, lambda text: None) == path
    for tar in (Tar(path, "0" * 64), Tar(tmp_path / "none.tar", good)):
        with pytest.raises(TwinError) as caught:
            await root_archive(Base("tar", tar), tmp_path, lambda text: None)
        assert caught.value.code == "image_unavailable"


async def test_a_user_without_subordinate_ids_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever cannot make a base system hears what is missing and that `host` works."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_242_424)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    with pytest.raises(TwinError) as caught:
        builder()
    assert "4242424" in caught.value.message
    assert "`host`" in caught.value.remedy
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(TwinError, match="mmdebstrap is not installed"):
        builder()


async def test_missing_host_packages_are_all_named() -> None:
    """On the base `host` every package that is missing is named at once; installed ones are not."""
    if not shutil.which("dpkg-query"):
        pytest.skip("this host has no dpkg")
    await check_host_packages(())
    await check_host_packages(("dpkg",))
    with pytest.raises(TwinError) as caught:
        await check_host_packages(("dpkg", "no-such-a", "no-such-b"))
    assert caught.value.code == "host_packages_missing"
    assert "no-such-a, no-such-b" in caught.value.message
    assert "dpkg" not in caught.value.message
