"""Make the Debian root file system that a universe stands on, once, and keep it as a tar archive.

It holds nothing of this machine: no name, no resolver, no id, no device nodes, no package lists.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from amplifier_digital_twin.apt_sources import RELEASES, Mirror, apt_sources, debian_mirror, has_credentials
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Tar

Progress = Callable[[str], None]

#: Counts up when the recipe below changes what comes out of it, so that older archives are not taken for new ones.
_RECIPE: Final = 1
#: Always there: without the certificates' package no TLS client inside finds the bundle that is put there.
_ALWAYS: Final = ("ca-certificates",)
#: How long a base system may take to make, in seconds: some 150 MB come over the network.
_TIMEOUT: Final = 30 * 60.0
_POLL: Final = 0.2
_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_MACHINES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "armhf",
    "i686": "i386",
    "ppc64le": "ppc64el",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
#: Documentation and translations are never unpacked; licences stay.
_DPKG: Final = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
)
#: What belongs to a machine, or can be had again; relative to the root.
_UNWANTED: Final = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id")


def debian_suite(image: str) -> str | None:
    """Return the release that an image name like `debian:12` or `debian:bookworm` means; None for any other image."""
    name, _, version = image.partition(":")
    if name != "debian":
        return None
    version = version.removesuffix("-slim")
    return RELEASES.get(version) or (version if version in RELEASES.values() else None)


async def root_archive(base: Base, cache: Path, progress: Progress) -> Path:
    """Return the tar archive of a base system's root, made now when it is not in the cache yet.

    The archive is not compressed and belongs to this user. A `tar` base is checked against its sha256 and returned as
    it is. Raises TwinError when the base is none of Debian's releases, or when it cannot be made here: making one needs
    mmdebstrap or debootstrap and root, or mmdebstrap and subordinate ids. Two callers at once make it once.
    """
    if base.tar is not None:
        return await _checked(base.tar)
    suite = debian_suite(base.image)
    if suite is None:
        known = ", ".join(f"debian:{number}" for number in RELEASES)
        raise TwinError(
            "image_unavailable", f"no base system can be made of image {base.image!r}", f"use host or one of {known}"
        )
    packages = check_names((*_ALWAYS, *base.packages))
    target = cache / "bases" / f"debian-{suite}-{architecture()}-{_digest(packages)}.tar"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with _held(target.with_suffix(".lock"), progress):
        if not target.is_file():
            await _make(suite, packages, target, progress)
    return target


def builder() -> list[str]:
    """Return the command that makes base systems here; raise TwinError, with every reason, when there is none."""
    mmdebstrap, debootstrap = shutil.which("mmdebstrap"), _find_debootstrap()
    remedy = "use the base `host`, or install mmdebstrap (Debian: apt install mmdebstrap uidmap)"
    if os.geteuid() == 0:
        if mmdebstrap:
            return [mmdebstrap, "--mode=root"]
        if debootstrap:
            return [debootstrap]
        raise TwinError("base_unavailable", "neither mmdebstrap nor debootstrap is installed", remedy)
    if not mmdebstrap:
        raise TwinError("base_unavailable", "mmdebstrap is not installed (debootstrap alone needs root)", remedy)
    if not shutil.which("newuidmap"):
        raise TwinError("base_unavailable", "newuidmap is not installed, and this user is not root", remedy)
    if not _has_subordinate_ids():
        raise TwinError(
            "base_unavailable",
            f"user {os.geteuid()} has no subordinate ids in /etc/subuid and /etc/subgid",
            "use the base `host`, or let root give this user some: usermod --add-subuids and --add-subgids",
        )
    return [mmdebstrap, "--mode=unshare"]


def architecture() -> str:
    """Return Debian's name of this machine's processor; raise TwinError for one it has no name for."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise TwinError("base_unavailable", f"no Debian release is known for {machine!r}", "use the base `host`")
    return _MACHINES[machine]


def check_names(packages: Sequence[str]) -> tuple[str, ...]:
    """Return package names sorted, each once; raise TwinError for what is no name (it would be read as an option)."""
    for name in packages:
        if not _PACKAGE.fullmatch(name):
            raise TwinError(
                "profile_invalid", f"{name!r} is no name of a Debian package", "correct `base.packages` in the profile"
            )
    return tuple(sorted(set(packages)))


async def check_host_packages(packages: Sequence[str]) -> None:
    """Raise TwinError, naming all of them, when Debian packages that the base `host` needs are not installed."""
    from amplifier_kit.guard.processes.launch import run_command

    names = check_names(packages)
    if not names:
        return
    if not (query := shutil.which("dpkg-query")):
        raise TwinError(
            "host_packages_missing",
            f"this host is no Debian: whether it has {', '.join(names)} cannot be told",
            "use the base debian:12, or leave `base.packages` empty and name programs in `base.tools`",
        )
    format_ = "${binary:Package} ${db:Status-Status}\n"
    result = await run_command([query, "-W", "-f", format_, *names], timeout=60, env=os.environ)
    installed = {
        line.split()[0].partition(":")[0] for line in result.output.splitlines() if line.endswith(" installed")
    }
    if missing := [name for name in names if name not in installed]:
        raise TwinError(
            "host_packages_missing",
            f"the host lacks Debian packages that the profile wants: {', '.join(missing)}",
            f"apt install {' '.join(missing)}, or use the base debian:12",
        )


async def _checked(tar: Tar) -> Path:
    from amplifier_kit.threads import in_thread

    def digest() -> str:
        import hashlib

        with open(tar.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    try:
        found = await in_thread(digest)
    except OSError as error:
        raise TwinError(
            "image_unavailable", f"{tar.path}: cannot be read: {error.strerror}", "correct `base.tar.path`"
        ) from error
    if found != tar.sha256.lower():
        raise TwinError(
            "image_unavailable",
            f"{tar.path}: its sha256 is {found}, the profile says {tar.sha256}",
            "take the archive the profile was written for, or correct `base.tar.sha256`",
        )
    return tar.path


def _digest(packages: Sequence[str]) -> str:
    import hashlib

    return hashlib.sha256(f"{_RECIPE}\n{' '.join(packages)}".encode()).hexdigest()[:16]


@asynccontextmanager
async def _held(lock: Path, progress: Progress) -> AsyncIterator[None]:
    """Hold a lock file without blocking the event loop while another process makes the same archive."""
    import asyncio
    import time

    from amplifier_foundation.files import FileBusyError, locked

    end = time.monotonic() + _TIMEOUT
    has_said = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(lock, timeout=0))
                break
            except FileBusyError:
                if time.monotonic() > end:
                    raise
                if not has_said:
                    progress("another universe is making the same base system: waiting for it")
                    has_said = True
                await asyncio.sleep(_POLL)
        yield


async def _make(suite: str, packages: Sequence[str], target: Path, progress: Progress) -> None:
    """Make an archive beside its place and rename it; nothing stays when that fails."""
    import tempfile

    command = builder()
    mirror = debian_mirror(apt_sources())
    progress(f"making the base system Debian {suite} ({', '.join(packages)}): about a minute, once")
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        fresh = work / "root.tar"
        if command[0].endswith("mmdebstrap"):
            await _mmdebstrap(command, suite, packages, mirror, fresh)
        else:
            await _debootstrap(command, suite, packages, mirror, work / "root", fresh)
        os.chmod(fresh, 0o600)
        os.replace(fresh, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _mmdebstrap(command: list[str], suite: str, packages: Sequence[str], mirror: Mirror, fresh: Path) -> None:
    """Let mmdebstrap write the archive; an address with a password is handed over in a file, never in argv."""
    argv = [*command, "--variant=minbase", "--format=tar", f"--include={','.join(packages)}", "--skip=output/dev"]
    argv += [f"--dpkgopt={option}" for option in _DPKG]
    argv += [f"--customize-hook=rm -f {' '.join(f'$1/{path}' for path in _UNWANTED)}"]
    sources, clean = fresh.with_name("sources.list"), fresh.with_name("clean.list")
    if lines := mirror.lines(suite, with_credentials=True):
        for file, text in ((sources, lines), (clean, mirror.lines(suite, with_credentials=False))):
            file.touch(mode=0o600)
            file.write_text(text, encoding="utf-8")
        argv += ["--customize-hook=rm -f $1/etc/apt/sources.list.d/*"]
        argv += [f"--customize-hook=upload {shlex.quote(str(clean))} /etc/apt/sources.list"]
        argv += ["--customize-hook=chmod 0644 $1/etc/apt/sources.list"]
    argv += [suite, str(fresh), *([str(sources)] if lines else [])]
    # Its own folder would not do: the ids of the inside must be able to enter the place it works in.
    await _build(argv, suite, {"TMPDIR": "/var/tmp"})


async def _debootstrap(
    command: list[str], suite: str, packages: Sequence[str], mirror: Mirror, root: Path, fresh: Path
) -> None:
    if mirror.archive is not None and has_credentials(mirror.archive):
        raise TwinError(
            "base_unavailable",
            "the host's Debian mirror wants a password, which debootstrap takes on its command line only",
            "install mmdebstrap, or put the password into /etc/apt/auth.conf.d",
        )
    argv = [*command, "--variant=minbase", f"--include={','.join(packages)}", suite, str(root)]
    await _build([*argv, mirror.archive] if mirror.archive else argv, suite, {})
    for path in _UNWANTED:
        (root / path).unlink(missing_ok=True)
    (root / "etc/dpkg/dpkg.cfg.d/99amplifier-twin").write_text("\n".join(_DPKG) + "\n", encoding="utf-8")
    if lines := mirror.lines(suite, with_credentials=False):
        (root / "etc/apt/sources.list").write_text(lines, encoding="utf-8")
    for path in ("var/lib/apt/lists", "var/cache/apt/archives"):
        shutil.rmtree(root / path, ignore_errors=True)
        (root / path / "partial").mkdir(parents=True)
    patterns = ("./dev/*", "./usr/share/man/*", "./usr/share/info/*", "./usr/share/locale/*/*", "./var/log/*.log")
    excluded = [f"--exclude={pattern}" for pattern in patterns]
    tar = ["tar", "--numeric-owner", "--one-file-system", "--xattrs", *excluded, "-C", str(root), "-cf", str(fresh)]
    await _build([*tar, "."], suite, {})


async def _build(argv: Sequence[str], suite: str, environment: dict[str, str]) -> None:
    from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command

    program = os.path.basename(argv[0])
    remedy = "try again when the host's Debian mirror can be reached, or use the base `host`"
    env = {**os.environ, **environment, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        result = await run_command(argv, timeout=_TIMEOUT, env=env)
    except CommandTimeoutError as error:
        raise TwinError("base_unavailable", f"Debian {suite}: {error}: {error.output[-600:]}", remedy) from error
    except OSError as error:
        raise TwinError("base_unavailable", f"{program} cannot be started: {error.strerror}", remedy) from error
    if result.returncode != 0:
        reason = _reason(result.output)
        raise TwinError(
            "base_unavailable", f"Debian {suite}: {program} ended with {result.returncode}: {reason}", remedy
        )


def _reason(output: str) -> str:
    """Return the lines that say what went wrong, else the last ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("E:", "Err:", "W: Fail"))]
    return " | ".join((telling or lines)[-6:])


def _find_debootstrap() -> str | None:
    return shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin:/sbin")


def _has_subordinate_ids() -> bool:
    import pwd

    names = {str(os.geteuid())}
    try:
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        pass  # a user without a name: only the number can be listed
    for file in (Path("/etc/subuid"), Path("/etc/subgid")):
        try:
            owners = {line.partition(":")[0] for line in file.read_text(encoding="utf-8").splitlines()}
        except OSError:
            return False
        if not owners & names:
            return False
    return True
