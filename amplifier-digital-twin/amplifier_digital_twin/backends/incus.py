"""Twins that are Incus' system containers, without a network device and without an init system."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.backends.calls import Answer, ask, find_program
from amplifier_digital_twin.backends.engine import (
    CAPABILITIES,
    FIRST_PROCESS,
    EngineBackend,
    check_identifier,
    container_name,
    owner,
)
from amplifier_digital_twin.backends.twin import Probe, TwinSpec
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base

_LONG: Final = 30 * 60.0
_ID: Final = "user.amplifier-twin-id"
_OWNER: Final = "user.amplifier-twin-owner"
#: Where the first program lies: the words of one cannot be given on a line, which knows no quotes within quotes.
_FIRST: Final = "/.amplifier-twin"
#: Few rights, and no files that tell of the host: what Incus gives a whole system, a twin does not need.
_LXC: Final = f"""lxc.init.cmd = /bin/sh {_FIRST}
lxc.no_new_privs = 1
lxc.cap.drop =
lxc.cap.keep = {" ".join(name.lower() for name in CAPABILITIES)}
lxc.mount.auto =
lxc.mount.auto = proc:mixed
lxc.mount.entry = none sys tmpfs ro,nosuid,nodev,noexec,size=4k,mode=555 0 0
lxc.mount.entry = none tmp tmpfs rw,nosuid,nodev,mode=1777,create=dir 0 0
lxc.mount.entry = none run tmpfs rw,nosuid,nodev,mode=755,create=dir 0 0
"""
#: Brings up loopback in the network of a process; nothing inside may do that. Standard library only, no import of ours.
_LOOPBACK: Final = """import ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(f"/proc/{int(sys.argv[1])}/ns/net", os.O_RDONLY)
if libc.setns(fd, 0x40000000):
    sys.exit(os.strerror(ctypes.get_errno()))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x49))
"""
_ARCHITECTURES: Final = {"x86_64": "x86_64", "aarch64": "aarch64", "armv7l": "armv7l", "i686": "i686"}


class Incus:
    """Incus, by its command line, on this machine."""

    name = "incus"

    def __init__(self) -> None:
        self._probe: Probe | None = None
        self._pool = ""

    def program(self) -> str:
        """Return the path of the program; raise TwinError when it is not installed."""
        if path := find_program(self.name):
            return path
        raise TwinError("engine_missing", "incus is not installed", "install incus")

    async def call(self, *words: str, timeout: float = 120.0, stdin: bytes = b"") -> Answer:
        """Run a command of the engine, whatever comes of it."""
        return await ask([self.program(), *words], timeout=timeout, stdin=stdin)

    async def must(self, *words: str, timeout: float = 120.0, stdin: bytes = b"") -> str:
        """Run a command of the engine and return what it says; raise TwinError when it fails."""
        answer = await self.call(*words, timeout=timeout, stdin=stdin)
        if answer.returncode != 0:
            raise TwinError("engine_failed", f"incus {words[0]}: {answer.reason}", "see whether incus works by itself")
        return answer.stdout

    async def probe(self) -> Probe:
        """Ask the daemon, not the client; never raises."""
        if self._probe is None:
            try:
                self._probe = await self._ask()
            except TwinError as error:
                self._probe = Probe(False, error.message, {})
            except (ValueError, KeyError, TypeError) as error:
                self._probe = Probe(False, f"the answer of incus is not understood: {error!r}", {})
        return self._probe

    async def _ask(self) -> Probe:
        answer = await self.call("query", "/1.0", timeout=30)
        if answer.returncode != 0:
            return Probe(False, f"there is an incus client, but no daemon answers: {answer.reason}", {})
        if os.geteuid() != 0:
            reason = "only root can enter the network of incus containers, which the services of a universe need"
            return Probe(False, reason, {})
        pools: list[dict[str, Any]] = json.loads(await self.must("storage", "list", "--format", "json"))
        if not pools:
            return Probe(False, "incus has no storage pool: run `incus admin init --minimal` once", {})
        names = [str(pool["name"]) for pool in pools]
        self._pool = "default" if "default" in names else names[0]
        version = (json.loads(answer.stdout).get("environment") or {}).get("server_version", "?")
        features = {"userns": "yes", "overlay": "yes", "cgroups": "yes", "sockets": "yes"}
        return Probe(True, f"incus {version} works", features)

    async def images(self) -> Sequence[str]:
        """Name its own images, those of this program left out."""
        names = [alias for aliases in (await self._aliases()).values() for alias in aliases]
        return [name for name in names if not name.startswith("amplifier-twin")]

    async def base_image(self, base: Base, cache: Path, progress: Callable[[str], None]) -> str:
        """Return the image of a base, made when it is not there; raise TwinError when it cannot be had."""
        from amplifier_digital_twin.base_systems import debian_suite, root_archive

        if base.tar is None and debian_suite(base.image) is None:
            if base.image != "host" and not base.packages and await self.has_image(base.image):
                return base.image
            raise TwinError(
                "image_unavailable",
                f"incus cannot provide the image {base.image!r}",
                f"use one of: debian:12, {', '.join(await self.images()) or 'an image that incus has'}",
            )
        archive = await root_archive(base, cache, progress)
        image = f"amplifier-twin-base/{base.tar.sha256.lower() if base.tar is not None else archive.stem}"
        if not await self.has_image(image):
            progress(f"incus imports the base system {archive.name}")
            with tempfile.TemporaryDirectory(prefix="amplifier-twin-") as folder:
                metadata = Path(folder) / "metadata.tar"
                await asyncio.to_thread(_write_metadata, metadata)
                words = ("image", "import", str(metadata), str(archive), "--alias", image)
                answer = await self.call(*words, timeout=_LONG)
            if answer.returncode != 0 and not await self._appears(image):
                raise TwinError("engine_failed", f"incus image import: {answer.reason}", "see whether incus works")
        return image

    async def _appears(self, image: str) -> bool:
        """Wait for an image that another process imports at the same time: its name comes last."""
        for _ in range(50):
            if await self.has_image(image):
                return True
            await asyncio.sleep(0.2)
        return False

    async def start(self, spec: TwinSpec, image: str) -> Sequence[str]:
        """Make and start the container of a spec; return what is weaker than asked for."""
        if spec.network == "host":
            raise TwinError(
                "network_unavailable", "incus twins cannot use the host's network", "choose another backend"
            )
        await self.probe()
        name = container_name(spec.id)
        await self.must(*self.init_arguments(spec, image), timeout=_LONG)
        first = f"{FIRST_PROCESS}\n".encode()
        await self.must("file", "push", "-", f"{name}{_FIRST}", "--mode", "0755", stdin=first)
        await self.must("start", name)
        if (pid := await self.pid(name)) is not None:
            answer = await ask([sys.executable, "-I", "-S", "-c", _LOOPBACK, str(pid)], timeout=30)
            if answer.returncode != 0:
                raise TwinError("engine_failed", f"loopback of {name}: {answer.reason}", "run this program as root")
        if spec.limits.disk is None:
            return []
        return ["disk is not limited: incus has quotas only on some kinds of storage"]

    def init_arguments(self, spec: TwinSpec, image: str) -> list[str]:
        """Return the words that make a container: no profile, and so no network device."""
        limits = spec.limits
        config = {
            _ID: spec.id,
            _OWNER: owner(),
            "security.guestapi": "false",
            "raw.lxc": f"{_LXC}lxc.uts.name = {spec.hostname}\n",
        }
        config |= {} if limits.memory is None else {"limits.memory": f"{limits.memory}B"}
        config |= {} if limits.pids is None else {"limits.processes": str(limits.pids)}
        config |= {} if limits.cpus is None else {"limits.cpu.allowance": f"{max(1, round(limits.cpus * 100))}ms/100ms"}
        words = ["init", image, container_name(spec.id), "--no-profiles", "--storage", self._pool]
        return [*words, *(word for key, value in config.items() for word in ("--config", f"{key}={value}"))]

    def exec_argv(self, container: str, uid: int) -> list[str]:
        """Return the command that runs what is appended to it in a container, with stdin."""
        who = ["--user", str(uid), "--group", str(uid)]
        return [self.program(), "exec", container, "--force-noninteractive", "--cwd", "/", *who, "--"]

    async def known_variables(self, container: str) -> Sequence[str]:
        """Name the variables that commands in the container get from the engine or the image."""
        config = (await self._instance(container) or {}).get("expanded_config") or {}
        return [key.removeprefix("environment.") for key in config if key.startswith("environment.")]

    async def pid(self, container: str) -> int | None:
        """Return the container's first process as the host numbers it; None when it does not run."""
        answer = await self.call("query", f"/1.0/instances/{container}/state")
        if answer.returncode != 0:
            return None
        state: dict[str, Any] = json.loads(answer.stdout)
        return int(state["pid"]) if state.get("status") == "Running" and state.get("pid", 0) > 0 else None

    async def commit(self, container: str, image: str) -> None:
        """Keep a container's files as an image, in place of one of that name."""
        # From a snapshot, because a running container can be published only by stopping it.
        await self.must("snapshot", "create", container, "amplifier", "--reuse", timeout=_LONG)
        try:
            words = ["publish", f"{container}/amplifier", "--alias", image, "--reuse", "--compression", "none"]
            await self.must(*words, timeout=_LONG)
        finally:
            await self.must("snapshot", "delete", container, "amplifier")

    async def has_image(self, image: str) -> bool:
        """Tell whether an image of exactly that name is there."""
        return any(image in aliases for aliases in (await self._aliases()).values())

    async def remove_container(self, container: str, universe: str) -> None:
        """End and remove a container, when it is this user's and of that universe; one that is gone is no error."""
        found = await self._instance(container)
        if found is None:
            return
        config = found.get("config") or {}
        if config.get(_ID) != universe or config.get(_OWNER) != owner():
            raise TwinError(
                "not_ours",
                f"the container {container} is not one that this user's universe {universe} made",
                f"look at it: incus config show {container}",
            )
        await self.must("delete", "--force", container)

    async def remove_images(self, universe: str) -> None:
        """Remove the snapshots of a universe."""
        prefix = f"amplifier-twin/{check_identifier(universe)}/"
        for aliases in (await self._aliases()).values():
            mine = [alias for alias in aliases if alias.startswith(prefix)]
            if mine and len(mine) == len(aliases):
                await self.must("image", "delete", mine[0])
            else:
                for alias in mine:
                    await self.must("image", "alias", "delete", alias)

    def snapshot_image(self, universe: str, name: str) -> str:
        """Name the image of a snapshot."""
        return f"amplifier-twin/{check_identifier(universe)}/{name}"

    def layer_image(self, name: str) -> str:
        """Name the image of a provisioned layer."""
        return f"amplifier-twin-layer/{name}"

    async def _aliases(self) -> dict[str, list[str]]:
        images: list[dict[str, Any]] = json.loads(await self.must("image", "list", "--format", "json"))
        return {
            str(image["fingerprint"]): [str(alias["name"]) for alias in image.get("aliases") or []] for image in images
        }

    async def _instance(self, container: str) -> dict[str, Any] | None:
        answer = await self.call("query", f"/1.0/instances/{container}")
        if answer.returncode != 0:
            if "not found" in answer.reason.lower():
                return None
            raise TwinError("engine_failed", f"incus query: {answer.reason}", "see whether incus works by itself")
        found: dict[str, Any] = json.loads(answer.stdout)
        return found


def _write_metadata(target: Path) -> None:
    """Write what Incus wants to know of a root file system."""
    import io
    import tarfile

    machine = os.uname().machine
    text = (
        f"architecture: {_ARCHITECTURES.get(machine, machine)}\ncreation_date: 1\nproperties:\n  os: Debian\n".encode()
    )
    with tarfile.open(target, "w") as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def incus_backend() -> EngineBackend:
    """Return the backend of Incus' containers."""
    return EngineBackend(Incus())
