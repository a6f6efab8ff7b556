"""Twins that are containers of a docker engine on this machine."""

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

from amplifier_digital_twin.backends.containers import ContainerEngine
from amplifier_digital_twin.backends.engine import SAME_USERS, EngineBackend, has
from amplifier_digital_twin.backends.twin import Probe, TwinSpec
from amplifier_digital_twin.errors import TwinError


class Docker(ContainerEngine):
    """docker: the client and the engine behind it."""

    name: str = "docker"
    #: docker cannot leave `/sys` out; something empty is mounted over it.
    run_words: ClassVar[tuple[str, ...]] = ("--tmpfs", "/sys:ro,nosuid,nodev,noexec,size=4k,mode=555")

    def __init__(self) -> None:
        super().__init__()
        self._probe: Probe | None = None

    async def probe(self) -> Probe:
        """Ask the engine, not the client, which is often there alone; never raises."""
        if self._probe is None:
            self._probe = await self._ask()
        return self._probe

    async def _ask(self) -> Probe:
        try:
            answer = await self.call("info", "--format", "{{json .}}", timeout=30)
        except TwinError as error:
            return Probe(False, error.message, {})
        try:
            info: dict[str, Any] = json.loads(answer.stdout)
        except ValueError:
            info = {}
        if answer.returncode != 0 or not info.get("ServerVersion"):
            errors = info.get("ServerErrors") or [answer.reason]
            return Probe(False, f"there is a docker client, but no engine answers: {errors[0]}", {})
        return self._judge(info)

    def _judge(self, info: dict[str, Any]) -> Probe:
        if os.geteuid() != 0:
            reason = "only root can enter the network of docker's containers, which the services of a universe need"
            return Probe(False, reason, {})
        if str(info.get("OSType", "linux")) != "linux" or "desktop" in str(info.get("OperatingSystem", "")).lower():
            return Probe(False, "the docker engine runs in another machine: its containers cannot be entered", {})
        options = " ".join(str(option) for option in info.get("SecurityOptions") or [])
        missing = [key for key in ("MemoryLimit", "PidsLimit", "CPUCfsQuota") if info.get(key) is False]
        features = {
            "userns": "yes" if "name=userns" in options else "no: the engine was started without userns-remap",
            "seccomp": "yes" if "name=seccomp" in options else "no: the engine filters no calls",
            "overlay": "yes",
            "cgroups": f"no: the engine lacks {', '.join(missing)}" if missing else "yes",
            "sockets": "yes",
        }
        return Probe(True, f"docker engine {info['ServerVersion']} works", features)

    async def limit_words(self, spec: TwinSpec) -> tuple[list[str], list[str]]:
        """Return the words that limit a container, and what is weaker than asked for."""
        words, notes = await super().limit_words(spec)
        return words, [*notes, *([] if has(await self.probe(), "userns") else [SAME_USERS])]


def docker_backend() -> EngineBackend:
    """Return the backend of docker's containers."""
    return EngineBackend(Docker())
