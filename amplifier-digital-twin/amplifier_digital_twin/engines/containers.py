"""Podman and Docker: the same command line where it is used here."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping
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

_OPEN_FILES: Final = 65536
_PROCESSES: Final = 4096
#: Containers need at least this many user ids: the profile's user is one of them.
_USER_IDS: Final = 1000
_SECCOMP: Final = Path("/usr/share/containers/seccomp.json")
#: Calls by which a process makes namespaces or mounts; nothing that runs in a universe needs them.
_NAMESPACE_CALLS: Final = frozenset(
    ("unshare", "setns", "mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount")
)
#: The flags of `clone` that make namespaces.
_NAMESPACE_FLAGS: Final = 0x7E020000
_ENOSYS: Final = 38


class ContainerEngine(Engine):
    """What Podman and Docker have in common."""

    #: Options of the sized file systems, beside their size.
    tmpfs: str = "rw,exec,nosuid,nodev,mode=1777"
    #: Options that make removal not wait for the container to stop by itself.
    at_once: tuple[str, ...] = ()

    def has_image(self, image: str) -> bool:
        return self.call("image", "inspect", "--format", "{{.Id}}", image).returncode == 0

    def import_image(self, archive: Path, image: str) -> None:
        self.must("import", str(archive), image)

    def create(self, spec: ContainerSpec) -> None:
        try:
            self.must(*self.run_arguments(spec))
        except BaseException:
            self.remove(spec.name)
            raise

    def run_arguments(self, spec: ContainerSpec) -> list[str]:
        """Return the words that run a container: no network, no capabilities, no new privileges, all limits."""
        limits = spec.limits
        words = ["run", "--detach", f"--name={spec.name}", f"--hostname={spec.hostname}", "--pull=never"]
        words += [f"--network={'host' if spec.network == 'host' else 'none'}"]
        words += ["--cap-drop=all", "--security-opt=no-new-privileges", f"--user={spec.uid}:{spec.uid}"]
        words += [f"--cap-add={name}" for name in ROOT_CAPABILITIES if spec.uid == 0]
        words += [f"--ulimit=nofile={_hard(resource.RLIMIT_NOFILE, _OPEN_FILES)}"]
        words += [f"--ulimit=nproc={_hard(resource.RLIMIT_NPROC, _PROCESSES)}"]
        words += [] if limits.memory is None else [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
        words += [] if limits.pids is None else [f"--pids-limit={limits.pids}"]
        words += [] if limits.cpus is None else [f"--cpus={limits.cpus:g}"]
        if limits.disk is not None and spec.uid != 0:
            words += [f"--tmpfs={target}:{self.tmpfs},size={size}" for target, size in disk_parts(limits.disk).items()]
        words += [f"--volume={source}:{target}:ro" for target, source in spec.mounts.items()]
        words += [f"--label={key}={value}" for key, value in spec.labels.items()]
        return [*words, *self.own_options(spec), "--entrypoint=", spec.image, "/bin/sh", "-c", spec.script]

    def own_options(self, spec: ContainerSpec) -> list[str]:
        """Return the options that only this engine has."""
        return []

    def exec_argv(
        self, container: str, uid: int, gid: int | None = None, cwd: str = "/", environment: Mapping[str, str] = {}
    ) -> list[str]:
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        words = [
            "exec",
            "--interactive",
            f"--user={uid}:{uid if gid is None else gid}",
            f"--workdir={cwd}",
            *variables,
            container,
        ]
        return [self.executable(), *self.options, *words]

    def init_pid(self, container: str) -> int | None:
        result = self.call("container", "inspect", "--format", "{{.State.Pid}}", container)
        return int(result.stdout) or None if result.returncode == 0 else None

    def commit(self, container: str, image: str) -> None:
        self.must("commit", "--pause=true", container, image)

    def find(self, labels: Mapping[str, str]) -> list[str]:
        filters = [f"--filter=label={key}" + (f"={value}" if value else "") for key, value in labels.items()]
        return self.must("ps", "--all", "--format", "{{.Names}}", *filters).split()

    def remove(self, container: str) -> None:
        result = self.call("rm", "--force", "--volumes", *self.at_once, container)
        words = result.stderr.decode("utf-8", "replace").lower()
        if result.returncode != 0 and "no such container" not in words and "no container with" not in words:
            raise self.failure("rm", result)

    def remove_image(self, image: str) -> None:
        result = self.call("rmi", "--force", image)
        if result.returncode != 0 and self.has_image(image):
            raise self.failure("rmi", result)


class Podman(ContainerEngine):
    """Podman: no daemon, root or an ordinary user."""

    name = "podman"
    #: Podman would copy what the image has there, and give it the mode of the directory in the image.
    tmpfs = f"{ContainerEngine.tmpfs},notmpcopyup,U"
    at_once = ("--time=0",)

    def __init__(self) -> None:
        self.options = ("--log-level=error",)
        self.options += () if os.geteuid() == 0 else ("--storage-driver=overlay",)
        if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
            # crun fails on hybrid cgroups, and there may be no systemd to ask for one.
            self.options += ("--runtime=runc", "--cgroup-manager=cgroupfs")

    def own_options(self, spec: ContainerSpec) -> list[str]:
        """Return the lifetime, no view of the host's devices, and a filter of system calls.

        Podman's own filter lets everybody make namespaces.
        """
        options = [f"--timeout={max(1, int(spec.lifetime))}", "--security-opt=mask=/sys"]
        if _SECCOMP.is_file():
            path = spec.folder / "seccomp.json"
            path.write_text(json.dumps(without_namespaces(json.loads(_SECCOMP.read_bytes()))), encoding="utf-8")
            options.append(f"--security-opt=seccomp={path}")
        return options

    def probe(self) -> Probe:
        try:
            result = self.call("info", "--format", "json")
        except TwinError as error:
            return Probe(False, error.message, "install it: `apt install podman runc uidmap`, or `make system`")
        if result.returncode != 0:
            return Probe(False, f"podman does not work here: {end_of(result.stderr, 500)}", _rootless_remedy())
        host = json.loads(result.stdout)["host"]
        is_rootless, version = bool(host["security"]["rootless"]), host["cgroupVersion"]
        features = {"rootless": "yes" if is_rootless else "no: this is root", "disk": "yes"}
        for limit, controller in (("memory", "memory"), ("pids", "pids"), ("cpus", "cpu")):
            holds = controller in (host.get("cgroupControllers") or []) and not (is_rootless and version == "v1")
            why = f"no: this user cannot use the cgroup controller {controller!r} (cgroup {version})"
            features[limit] = "yes" if holds else why
        features["seccomp"] = "yes" if host["security"]["seccompEnabled"] else "no: podman was built without"
        ids = sum(int(part["size"]) for part in host["idMappings"]["uidmap"] or ())
        if is_rootless and ids <= _USER_IDS:
            reason = f"this user has no subordinate ids, so that a container has {ids} user ids only"
            return Probe(False, reason, _rootless_remedy(), features)
        return Probe(True, features=features)


class Docker(ContainerEngine):
    """Docker, whose daemon runs as root."""

    name = "docker"

    def probe(self) -> Probe:
        try:
            result = self.call("info", "--format", "{{json .}}")
        except TwinError as error:
            return Probe(False, error.message, "install it, or use podman")
        info = json.loads(result.stdout) if result.stdout.startswith(b"{") else {}
        if result.returncode != 0 or not info.get("ServerVersion"):
            return Probe(False, f"docker does not answer: {end_of(result.stderr, 500)}", "start its daemon")
        features = {
            name: "yes" if info.get(key) else f"no: the daemon reports {key} as missing"
            for name, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpus", "CpuCfsQuota"))
        }
        options = " ".join(info.get("SecurityOptions") or [])
        features["seccomp"] = "yes" if "seccomp" in options else "no: the daemon was started without"
        return Probe(True, features={**features, "disk": "yes", "rootless": "yes" if "rootless" in options else "no"})


def without_namespaces(filters: dict[str, Any]) -> dict[str, Any]:
    """Return a filter of system calls without those that make namespaces or mounts; `clone` keeps its other uses."""
    rules: list[dict[str, Any]] = []
    for rule in filters["syscalls"]:
        is_allowed = rule["action"] == "SCMP_ACT_ALLOW"
        taken = {*_NAMESPACE_CALLS, "clone", "clone3"} if is_allowed else set()
        names = [name for name in rule["names"] if name not in taken]
        rules += [{**rule, "names": names}] if names else []
    masked = {"index": 0, "value": _NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [masked]})
    # Its flags are in memory, where a filter cannot look: callers fall back to `clone`.
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
    return {**filters, "syscalls": rules}


def _rootless_remedy() -> str:
    if os.geteuid() == 0:
        return "see what `podman info` reports"
    return (
        "an ordinary user needs newuidmap (Debian: uidmap), subordinate ids (`usermod --add-subuids 100000-165535"
        " --add-subgids 100000-165535 $USER`) and XDG_RUNTIME_DIR; or run as root"
    )


def _hard(kind: int, most: int) -> str:
    """Return a limit that this process may hand on: never above its own."""
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return f"{value}:{value}"
