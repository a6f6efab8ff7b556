"""Incus: system containers without a network device, driven by the same verbs where it is present."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.engines.engine import (
    ROOT_CAPABILITIES,
    ContainerSpec,
    Engine,
    Probe,
    disk_parts,
    end_of,
)
from amplifier_digital_twin.errors import TwinError

#: The first process: a line of the container's config cannot hold the words of a command.
_FIRST: Final = "/.amplifier-twin"


class Incus(Engine):
    """Incus, by its command line, on this machine."""

    name = "incus"

    def probe(self) -> Probe:
        try:
            answer = self.call("query", "/1.0")
            if answer.returncode != 0:
                reason = f"no incus daemon answers: {end_of(answer.stderr, 500)}"
                return Probe(False, reason, "start it: `systemctl start incus`")
            if not json.loads(self.must("storage", "list", "--format", "json")):
                return Probe(False, "incus has no storage pool", "run `incus admin init --minimal` once")
        except TwinError as error:
            return Probe(False, error.message, error.remedy)
        return Probe(True, features=dict.fromkeys(("memory", "pids", "cpus", "disk", "seccomp"), "yes"))

    def has_image(self, image: str) -> bool:
        return _alias(image) in self._aliases()

    def import_image(self, archive: Path, image: str) -> None:
        """Make an image of a root file system in a tar archive, with the description that incus wants beside it."""
        text = f"architecture: {os.uname().machine}\ncreation_date: 1\n".encode()
        with tempfile.TemporaryDirectory() as directory:
            metadata = Path(directory, "metadata.tar")
            with tarfile.open(metadata, "w") as description:
                entry = tarfile.TarInfo("metadata.yaml")
                entry.size = len(text)
                description.addfile(entry, BytesIO(text))
            self.must("image", "import", str(metadata), str(archive), "--alias", _alias(image))

    def create(self, spec: ContainerSpec) -> None:
        """Create a container, put its first program in it, and start it; nothing of it stays when that fails."""
        try:
            self.must(*self.init_arguments(spec))
            script = f"#!/bin/sh\n{spec.script}"
            self.must("file", "push", "-", f"{spec.name}{_FIRST}", "--mode", "0755", data=script.encode())
            for index, (target, source) in enumerate(spec.mounts.items()):
                device = ["disk", f"source={source}", f"path={target}", "readonly=true"]
                self.must("config", "device", "add", spec.name, f"mount{index}", *device)
            self.must("start", spec.name)
        except BaseException:
            self.remove(spec.name)
            raise

    def init_arguments(self, spec: ContainerSpec) -> list[str]:
        """Return the words that make a container: no profile, and so no network device; no capabilities; all limits."""
        limits = spec.limits
        keep = " ".join(name.lower() for name in ROOT_CAPABILITIES) if spec.uid == 0 else "none"
        lines = [f"lxc.init.cmd = /bin/sh {_FIRST}", f"lxc.init.uid = {spec.uid}", f"lxc.init.gid = {spec.uid}"]
        lines += ["lxc.no_new_privs = 1", "lxc.cap.drop =", f"lxc.cap.keep = {keep}", f"lxc.uts.name = {spec.hostname}"]
        if limits.disk is not None and spec.uid != 0:
            lines += [
                f"lxc.mount.entry = none {target.strip('/')} tmpfs rw,nosuid,nodev,mode=1777,size={size} 0 0"
                for target, size in disk_parts(limits.disk).items()
            ]
        config = {f"user.{key}": value for key, value in spec.labels.items()}
        config |= {"security.guestapi": "false", "raw.lxc": "\n".join([*lines, ""])}
        config |= {} if limits.memory is None else {"limits.memory": f"{limits.memory}B", "limits.memory.swap": "false"}
        config |= {} if limits.pids is None else {"limits.processes": str(limits.pids)}
        config |= {} if limits.cpus is None else {"limits.cpu.allowance": f"{max(1, round(limits.cpus * 100))}ms/100ms"}
        words = ["init", _alias(spec.image), spec.name, "--no-profiles", "--storage", self._pool()]
        return [*words, *(word for key, value in config.items() for word in ("--config", f"{key}={value}"))]

    def exec_argv(
        self, container: str, uid: int, gid: int | None = None, cwd: str = "/", environment: Mapping[str, str] = {}
    ) -> list[str]:
        variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        who = ["--user", str(uid), "--group", str(uid if gid is None else gid), "--cwd", cwd]
        return [self.executable(), "exec", container, "--force-noninteractive", *who, *variables, "--"]

    def init_pid(self, container: str) -> int | None:
        answer = self.call("query", f"/1.0/instances/{container}/state")
        if answer.returncode != 0:
            return None
        state: dict[str, Any] = json.loads(answer.stdout)
        return int(state["pid"]) if state.get("status") == "Running" and state.get("pid", 0) > 0 else None

    def commit(self, container: str, image: str) -> None:
        """Keep a container's root file system as an image, from a snapshot: a running one cannot be published."""
        self.must("snapshot", "create", container, "amplifier", "--reuse")
        try:
            words = ["--alias", _alias(image), "--reuse", "--compression", "none"]
            self.must("publish", f"{container}/amplifier", *words)
        finally:
            self.must("snapshot", "delete", container, "amplifier")

    def find(self, labels: Mapping[str, str]) -> list[str]:
        found: list[dict[str, Any]] = json.loads(self.must("list", "--format", "json"))
        containers = []
        for item in found:
            config = item.get("config") or {}
            own = {key.removeprefix("user."): value for key, value in config.items() if key.startswith("user.")}
            if all(key in own and value in ("", own[key]) for key, value in labels.items()):
                containers.append(str(item["name"]))
        return containers

    def remove(self, container: str) -> None:
        result = self.call("delete", "--force", container)
        if result.returncode != 0 and "not found" not in result.stderr.decode("utf-8", "replace").lower():
            raise self.failure("delete", result)

    def remove_image(self, image: str) -> None:
        if self.has_image(image):
            self.must("image", "delete", _alias(image))

    def _aliases(self) -> list[str]:
        images: list[dict[str, Any]] = json.loads(self.must("image", "list", "--format", "json"))
        return [str(alias["name"]) for image in images for alias in image.get("aliases") or []]

    def _pool(self) -> str:
        pools: list[dict[str, Any]] = json.loads(self.must("storage", "list", "--format", "json"))
        names = [str(pool["name"]) for pool in pools]
        return "default" if "default" in names else names[0]


def _alias(image: str) -> str:
    """Return the name of an image in incus, whose aliases have no colon."""
    return image.removeprefix("localhost/").replace(":", "-")
