"""The images that universes stand on: a Debian made by mmdebstrap once, an archive, or an image of the engine."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from amplifier_digital_twin.engines.engine import Engine
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Tar
from amplifier_foundation.files import locked, make_private
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import find_program

Progress = Callable[[str], None]

#: The releases that a base can be made of, by the number that profiles use.
RELEASES: Final = {"11": "bullseye", "12": "bookworm", "13": "trixie"}
#: Counts up when the recipe changes what comes out of it.
_RECIPE: Final = 1
#: What every universe needs to reach its services.
_ALWAYS: Final = ("ca-certificates", "socat")
#: What the base `host` has besides.
_HOST: Final = ("git", "make", "python3", "python3-venv")
_TIMEOUT: Final = 30 * 60.0
#: Programs that run anywhere as one file and are mounted; others come as Debian packages.
PORTABLE: Final = ("uv",)
_DPKG: Final = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
)
#: Everybody may create a home; nothing else outside /tmp can be written to by users, so that the disk limit holds.
_HOOK: Final = (
    'rm -f "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/machine-id "$1"/var/lib/dbus/machine-id;'
    ' chmod 1777 "$1"/home; chmod 755 "$1"/run/lock; rmdir "$1"/var/tmp && ln -s ../tmp "$1"/var/tmp;'
    ' mkdir -p "$1"/etc/uv "$1"/run/twin; touch "$1"/etc/gitconfig "$1"/etc/pip.conf "$1"/etc/uv/uv.toml'
)


class Image(NamedTuple):
    """An image of an engine; `is_ours` when it was made by this program, with everything that a universe needs."""

    name: str
    is_ours: bool


def image_key(base: Base) -> str:
    """Return a text that changes with what the base holds; raises TwinError for a base that cannot be."""
    suite = suite_of(base.image)
    if base.tar is not None:
        return f"tar {base.tar.sha256}"
    return f"debian {suite} {' '.join(_packages(base))} {_RECIPE}" if suite else f"image {base.image}"


def suite_of(image: str) -> str | None:
    """Return the Debian release that an image is made of; None for an image of the engine."""
    if image == "host":
        suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        return suite if suite in RELEASES.values() else RELEASES["12"]
    name, _, version = image.partition(":")
    version = version.removesuffix("-slim")
    if name != "debian":
        return None
    return RELEASES.get(version) or (version if version in RELEASES.values() else None)


def ensure_image(engine: Engine, base: Base, cache: Path, progress: Progress) -> Image:
    """Return the image of a base, made or fetched when it is missing; processes that need the same wait for one."""
    digest = hashlib.sha256(image_key(base).encode()).hexdigest()[:16]
    image = f"localhost/amplifier-twin/base:{digest}"
    suite = suite_of(base.image)
    if base.tar is None and suite is None:
        return Image(_foreign(engine, base, progress), is_ours=False)
    if engine.has_image(image):
        return Image(image, is_ours=base.tar is None)
    archive = cache / "bases" / f"{digest}.tar"
    make_private(archive.parent)
    with locked(archive.with_suffix(".lock"), timeout=_TIMEOUT):
        if base.tar is not None:
            archive = _checked(base.tar)
        elif not archive.is_file():
            assert suite is not None
            _make(suite, _packages(base), archive, progress)
        if not engine.has_image(image):
            progress(f"importing the base image into {engine.name}")
            engine.import_image(archive, image)
    return Image(image, is_ours=base.tar is None)


def _packages(base: Base) -> tuple[str, ...]:
    tools = [name for name in base.tools if name not in PORTABLE]
    return tuple(sorted({*_ALWAYS, *(_HOST if base.image == "host" else ()), *tools, *base.packages}))


def _foreign(engine: Engine, base: Base, progress: Progress) -> str:
    if base.packages:
        raise TwinError(
            "image_unavailable",
            f"base.packages cannot be added to the image {base.image!r}",
            "use the base host or debian:12, or an image that has them",
        )
    if not engine.has_image(base.image):
        progress(f"{engine.name} fetches the image {base.image}")
        try:
            engine.must("pull", base.image, timeout=_TIMEOUT)
        except TwinError as error:
            remedy = "use host, debian:12, or an image that the engine has"
            raise TwinError("image_unavailable", f"image {base.image!r}: {error.message}", remedy) from error
    return base.image


def _checked(tar: Tar) -> Path:
    with tar.path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != tar.sha256:
        raise TwinError(
            "image_unavailable",
            f"{tar.path}: its SHA-256 is {found}, the profile says {tar.sha256}",
            "take the archive that the profile was written for, or correct `base.tar.sha256`",
        )
    return tar.path


def _make(suite: str, packages: Sequence[str], target: Path, progress: Progress) -> None:
    """Let mmdebstrap write an archive, complete or not at all."""
    program = find_program("mmdebstrap", os.environ.get("PATH"))
    if program is None:
        remedy = "install it: `apt install mmdebstrap uidmap`; or use a `base.tar` or an image of the engine"
        raise TwinError("base_unavailable", "mmdebstrap is not installed", remedy)
    progress(f"making the base system Debian {suite} ({', '.join(packages)}): about a minute, once")
    lines = sources_list(debian_mirror(), suite)
    with tempfile.TemporaryDirectory(prefix=".make-", dir=target.parent) as directory:
        fresh = Path(directory, "root.tar")
        argv = [program, "--mode=unshare", "--variant=minbase", "--format=tar", f"--include={','.join(packages)}"]
        argv += ["--skip=output/dev", *(f"--dpkgopt={option}" for option in _DPKG), f"--customize-hook={_HOOK}"]
        if lines:
            sources = Path(directory, "sources.list")
            sources.write_text(lines, encoding="utf-8")
            argv += ["--customize-hook=rm -f $1/etc/apt/sources.list.d/*"]
            argv += [f"--customize-hook=upload {shlex.quote(str(sources))} /etc/apt/sources.list"]
        argv += [suite, "-", *([str(sources)] if lines else [])]
        shell = f"exec {shlex.join(argv)} > {shlex.quote(str(fresh))}"
        environment = {**os.environ, "TMPDIR": "/var/tmp", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        remedy = "try again when the Debian mirror can be reached, or use a `base.tar` or an image of the engine"
        try:
            result = run_program(["/bin/sh", "-c", shell], timeout=_TIMEOUT, environment=environment)
        except CommandTimeoutError as error:
            raise TwinError("base_unavailable", f"Debian {suite}: {error}: {error.output[-600:]}", remedy) from error
        if result.returncode != 0:
            said = result.output.splitlines()
            errors = [line for line in said if line.startswith(("E:", "Err:", "W: Fail"))]
            reason = " | ".join((errors or said)[-6:])
            raise TwinError("base_unavailable", f"Debian {suite}: mmdebstrap: {reason}", remedy)
        fresh.chmod(0o600)
        fresh.replace(target)


# -- where the host gets its Debian packages from --


def debian_mirror() -> dict[str, str]:
    """Return the suites of Debian releases that the host's apt knows, and the address of each; none without apt."""
    program = find_program("apt-get", os.environ.get("PATH"))
    if program is None:
        return {}
    argv = [program, "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]
    lines = run_program(argv, timeout=30, environment=os.environ, is_split=True).stdout.decode().splitlines()
    return debian_suites(line.split() for line in lines)


def debian_suites(targets: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return those of apt's suites and addresses that are Debian's own and on the web, without names and passwords."""
    found: dict[str, str] = {}
    for suite, uri in targets:
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https") and re.split("[-/]", suite)[0] in RELEASES.values():
            found.setdefault(suite, urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))
    return found


def sources_list(suites: Mapping[str, str], release: str) -> str:
    """Return the lines of a release for apt: its archive, updates and security, as far as the host knows where."""
    archive = next((uri for suite, uri in suites.items() if not suite.endswith("-security")), None)
    security = next((uri for suite, uri in suites.items() if suite.endswith("-security")), None)
    places = [(archive, release), (archive, f"{release}-updates"), (security, f"{release}-security")]
    return "".join(f"deb {uri} {suite} main\n" for uri, suite in places if uri)


def mirror_hosts() -> tuple[str, ...]:
    """Return the hosts, with their ports, that the host's apt takes Debian packages from; none on another system."""
    return tuple(dict.fromkeys(urlsplit(uri).netloc for uri in debian_mirror().values()))
