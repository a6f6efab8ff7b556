"""The images that universes stand on: a Debian made by mmdebstrap once, an archive, or an image of the engine."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
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
        fields = dict(line.split("=", 1) for line in _read(Path("/etc/os-release")).splitlines() if "=" in line)
        suite = fields.get("VERSION_CODENAME", "").strip('"')
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
    mirror = debian_mirror(apt_sources())
    with tempfile.TemporaryDirectory(prefix=".make-", dir=target.parent) as directory:
        fresh = Path(directory, "root.tar")
        argv = [program, "--mode=unshare", "--variant=minbase", "--format=tar", f"--include={','.join(packages)}"]
        argv += ["--skip=output/dev", *(f"--dpkgopt={option}" for option in _DPKG), f"--customize-hook={_HOOK}"]
        sources = Path(directory, "sources.list")
        clean = Path(directory, "clean.list")
        if mirror:
            # An address with a password is handed over in a file, never in argv, and does not stay in the image.
            for file, lines in ((sources, mirror.lines(suite)), (clean, mirror.without_credentials().lines(suite))):
                file.touch(mode=0o600)
                file.write_text(lines, encoding="utf-8")
            argv += ["--customize-hook=rm -f $1/etc/apt/sources.list.d/*"]
            argv += [f"--customize-hook=upload {shlex.quote(str(clean))} /etc/apt/sources.list"]
        argv += [suite, "-", *([str(sources)] if mirror else [])]
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


class Mirror(NamedTuple):
    """The addresses of a Debian mirror."""

    archive: str
    security: str | None

    def lines(self, suite: str) -> str:
        """Return the sources of a release in one-line form."""
        places = [(self.archive, suite), (self.archive, f"{suite}-updates")]
        places += [(self.security, f"{suite}-security")] if self.security else []
        return "".join(f"deb {uri} {at} main\n" for uri, at in places)

    def without_credentials(self) -> Mirror:
        """Return the mirror without names and passwords in its addresses."""
        return Mirror(_clean(self.archive), _clean(self.security) if self.security else None)


def apt_sources(folder: Path = Path("/etc/apt")) -> list[tuple[str, str]]:
    """Return address and suite of every source of binary packages, from both ways of writing them."""
    found: list[tuple[str, str]] = []
    for file in [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]:
        text = _read(file)
        if file.suffix == ".list":
            found += re.findall(r"^\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)", text, re.MULTILINE)
        elif file.suffix == ".sources":
            found += _stanzas(text)
    return found


def _stanzas(text: str) -> Iterator[tuple[str, str]]:
    """Read the `Types: / URIs: / Suites:` form: stanzas separated by empty lines, values continued by indentation."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", re.sub(r"\n[ \t]+(?=\S)", " ", kept)):
        fields = {key.strip().lower(): value.split() for key, _, value in map(_colon, stanza.splitlines())}
        if "deb" in fields.get("types", ()) and fields.get("enabled", ["yes"])[:1] != ["no"]:
            yield from ((uri, suite) for uri in fields.get("uris", ()) for suite in fields.get("suites", ()))


def _colon(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def debian_mirror(sources: Sequence[tuple[str, str]]) -> Mirror | None:
    """Return Debian's own archive and security archive among the host's sources; None when there is no archive."""
    archive = security = None
    for uri, suite in sources:
        if urlsplit(uri).scheme not in ("http", "https") or re.split("[-/]", suite)[0] not in RELEASES.values():
            continue
        if suite.endswith(("-security", "/updates")):
            security = security or uri
        else:
            archive = archive or uri
    return Mirror(archive, security) if archive else None


def mirror_hosts() -> tuple[str, ...]:
    """Return the hosts, with their ports, that the host's apt takes Debian packages from; none on another system."""
    mirror = debian_mirror(apt_sources())
    if mirror is None:
        return ()
    uris = [uri for uri in mirror.without_credentials() if uri is not None]
    return tuple(dict.fromkeys(urlsplit(uri).netloc for uri in uris))


def _clean(uri: str) -> str:
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except (FileNotFoundError, IsADirectoryError):
        return ""
