"""Twins that are podman's containers, of root or of any other user."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_digital_twin.backends.call_profile import read_stricter
from amplifier_digital_twin.backends.calls import find_program
from amplifier_digital_twin.backends.containers import LONG, ContainerEngine, allowed
from amplifier_digital_twin.backends.engine import SAME_USERS, EngineBackend
from amplifier_digital_twin.backends.id_shift import shift_owners
from amplifier_digital_twin.backends.twin import Probe, TwinSpec
from amplifier_digital_twin.embedded.id_maps import COUNT, FIRST_ID, IdMap
from amplifier_digital_twin.errors import TwinError

#: `/sys` tells of the host's hardware, and nothing inside needs it.
_HIDDEN: Final = "mask=/sys"
#: The filter for calls, in the folder of a twin.
_CALLS: Final = "calls.json"
#: The limit of a process holds for the runtime that starts it, too, which fails with less.
_LEAST_DATA: Final = 256 * 1024**2


class Podman(ContainerEngine):
    """podman, with runc where crun does not work."""

    name: str = "podman"
    run_words: ClassVar[tuple[str, ...]] = ("--no-hosts", "--image-volume", "ignore", "--security-opt", _HIDDEN)

    def __init__(self) -> None:
        super().__init__()
        self._has_limits = True
        #: The filter for calls, when there is one.
        self._calls: dict[str, Any] | None = None
        self._probe: Probe | None = None

    async def probe(self) -> Probe:
        """Ask podman what it has; never raises."""
        if self._probe is None:
            self._probe = await self._ask()
        return self._probe

    async def _ask(self) -> Probe:
        try:
            answer = await self.call("info", "--format", "json", timeout=60)
        except TwinError as error:
            return Probe(False, error.message, {})
        if answer.returncode != 0:
            return Probe(False, f"podman does not work: {answer.reason}", {})
        try:
            host: dict[str, Any] = json.loads(answer.stdout)["host"]
        except (ValueError, KeyError, TypeError) as error:
            return Probe(False, f"podman's answer is not understood: {error!r}", {})
        return self._judge(host)

    def _judge(self, host: dict[str, Any]) -> Probe:
        is_old = host.get("cgroupVersion") == "v1"
        runtime = str((host.get("ociRuntime") or {}).get("name", ""))
        if is_old and runtime != "runc":
            # crun fails where control groups of both versions are mounted.
            if not (runc := find_program("runc")):
                return Probe(
                    False, f"{runtime or 'crun'} does not work with version 1 control groups: install runc", {}
                )
            self.global_words = ("--runtime", runc)
        is_rootless = os.geteuid() != 0
        if is_rootless:
            ids = IdMap.of_this_user()
            if not ids.has_root:
                return Probe(False, f"podman needs subordinate ids: {ids.reason_without_root}", {})
        controllers = set(host.get("cgroupControllers") or [])
        missing = sorted({"memory", "pids", "cpu"} - controllers)
        if is_rootless and is_old:
            limits = "no: version 1 control groups cannot be given to users"
        else:
            limits = f"no: podman has no control of {', '.join(missing)}" if missing else "yes"
        self._has_limits = limits == "yes"
        features = {
            "userns": "yes",
            "seccomp": self._filter(host),
            "overlay": "yes",
            "cgroups": limits,
            "sockets": "yes",
        }
        kind = "rootless" if is_rootless else "root"
        return Probe(True, f"podman works ({kind}, {'runc' if self.global_words else runtime})", features)

    def _filter(self, host: dict[str, Any]) -> str:
        """Find out which calls containers may be refused; return `yes`, or the reason why none."""
        security = host.get("security") or {}
        path = str(security.get("seccompProfilePath") or "")
        if not security.get("seccompEnabled"):
            return "no: podman filters no calls here"
        if not path:
            return "no: podman does not say which calls it allows"
        self._calls, reason = read_stricter(path)
        return f"no: {reason}" if reason else "yes"

    def filter_words(self, spec: TwinSpec) -> list[str]:
        """Return the words that refuse the calls which lead past every namespace; raises OSError."""
        if self._calls is None:
            return []
        path = spec.folder / _CALLS
        path.write_text(json.dumps(self._calls), encoding="utf-8")
        return ["--security-opt", f"seccomp={path}"]

    def identity_words(self, spec: TwinSpec) -> list[str]:
        """Return the words that make ids inside others than the host's; for other users podman does it by itself."""
        if os.geteuid() != 0 or spec.network == "host":
            return []
        return ["--uidmap", f"0:{FIRST_ID}:{COUNT}", "--gidmap", f"0:{FIRST_ID}:{COUNT}"]

    async def limit_words(self, spec: TwinSpec) -> tuple[list[str], list[str]]:
        """Return the words that limit a container; without control groups only each process is limited."""
        if self._has_limits:
            words, notes = await super().limit_words(spec)
            return words, [*notes, *([SAME_USERS] if os.geteuid() == 0 and not self.identity_words(spec) else [])]
        limits = spec.limits
        reason = (await self.probe()).features["cgroups"].removeprefix("no: ")
        words, notes = [], []
        if limits.memory is not None:
            most = allowed(resource.RLIMIT_DATA, max(limits.memory, _LEAST_DATA))
            words += ["--ulimit", f"data={most}:{most}"]
            notes.append(f"memory is limited for each process, not for all together: {reason}")
        if limits.pids is not None:
            notes.append(f"processes are limited for each user, not for all together: {reason}")
        if limits.cpus is not None:
            notes.append(f"processors are not limited: {reason}")
        return words, notes

    def most_processes(self, spec: TwinSpec) -> int:
        """Return how many processes each user inside may have."""
        most = super().most_processes(spec)
        return most if self._has_limits or spec.limits.pids is None else min(most, spec.limits.pids)

    async def commit(self, container: str, image: str) -> None:
        """Keep a container's files as an image.

        Of a container with ids of its own, podman's own command keeps the host's numbers, so that every file belongs to
        nobody afterwards: the files are taken out, given back their owners and made an image of.
        """
        import tempfile

        if os.geteuid() != 0:
            await super().commit(container, image)
            return
        # Not below /tmp, which is often memory: it may be a whole system.
        with tempfile.TemporaryDirectory(prefix="amplifier-twin-", dir="/var/tmp") as folder:
            raw, shifted = Path(folder) / "raw.tar", Path(folder) / "shifted.tar"
            await self.must("export", "--output", str(raw), container, timeout=LONG)
            await asyncio.to_thread(shift_owners, raw, shifted)
            await self.replace_image(image, "import", str(shifted), image)


def podman_backend() -> EngineBackend:
    """Return the backend of podman's containers."""
    return EngineBackend(Podman())
