"""Podman and Docker: the same command line where it is used here."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.engines.engine import Container, ContainerSpec, Engine, Probe, disk_parts

#: What `podman import` of a base may take: some hundred megabytes are written.
_LONG: Final = 600.0
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
#: What package managers need, for a profile that asks for root; every other universe has no capability at all.
ROOT_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


class ContainerEngine(Engine):
    """What Podman and Docker have in common."""

    #: Words before every command of the engine.
    options: tuple[str, ...] = ()

    def has_image(self, image: str) -> bool:
        """Return whether an image is on this machine."""
        return self.call(*self.options, "image", "inspect", "--format", "{{.Id}}", image).returncode == 0

    def import_image(self, archive: Path, image: str) -> None:
        """Make an image of a root file system in a tar archive."""
        self.must(*self.options, "import", str(archive), image, timeout=_LONG)

    def create(self, spec: ContainerSpec) -> None:
        """Create a container and start it; nothing of it stays when that fails."""
        try:
            self.must(*self.options, *self.run_arguments(spec), timeout=300)
        except BaseException:
            self.remove(spec.name)
            raise

    def run_arguments(self, spec: ContainerSpec) -> list[str]:
        """Return the words that run a container: no network, no capabilities, no new privileges, all limits."""
        words = ["run", "--detach", f"--name={spec.name}", f"--hostname={spec.hostname}", "--pull=never"]
        words += [f"--network={'host' if spec.network == 'host' else 'none'}"]
        words += ["--cap-drop=all", "--security-opt=no-new-privileges", f"--user={spec.uid}:{spec.uid}"]
        if spec.uid == 0:
            words += [f"--cap-add={name}" for name in ROOT_CAPABILITIES]
        words += self.security_options(spec)
        words += [f"--ulimit=nofile={_hard(resource.RLIMIT_NOFILE, _OPEN_FILES)}"]
        words += [f"--ulimit=nproc={_hard(resource.RLIMIT_NPROC, _PROCESSES)}"]
        limits = spec.limits
        words += [] if limits.memory is None else [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
        words += [] if limits.pids is None else [f"--pids-limit={limits.pids}"]
        words += [] if limits.cpus is None else [f"--cpus={limits.cpus:g}"]
        if limits.disk is not None and spec.uid != 0:
            words += [
                f"--tmpfs={target}:{self.tmpfs_options(size)}" for target, size in disk_parts(limits.disk).items()
            ]
        for mount in spec.mounts:
            words += ["--volume", f"{mount.source}:{mount.target}:ro"]
        for key, value in spec.labels.items():
            words += ["--label", f"{key}={value}"]
        for key, value in spec.environment.items():
            words += ["--env", f"{key}={value}"]
        return [*words, *self.lifetime_options(spec), "--entrypoint=", spec.image, *spec.command]

    def tmpfs_options(self, size: int) -> str:
        """Return the options of a sized file system in memory that everybody inside may write to."""
        return f"rw,exec,nosuid,nodev,size={size},mode=1777"

    def security_options(self, spec: ContainerSpec) -> list[str]:
        """Return the options that filter system calls; the engine has a filter of its own."""
        return []

    def lifetime_options(self, spec: ContainerSpec) -> list[str]:
        """Return the options that let the engine end a container in time."""
        return []

    def exec_argv(
        self, container: str, uid: int, cwd: str, environment: Mapping[str, str], *, gid: int | None = None
    ) -> list[str]:
        """Return the command that runs, with stdin, what is appended to it in a container."""
        variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        options = ["--interactive", f"--user={uid}:{uid if gid is None else gid}", f"--workdir={cwd}", *variables]
        return [self.executable(), *self.options, "exec", *options, container]

    def init_pid(self, container: str) -> int | None:
        """Return the host's number of the container's first process; None when it does not run."""
        result = self.call(*self.options, "container", "inspect", "--format", "{{.State.Pid}}", container)
        text = result.stdout.decode("ascii", "replace").strip()
        return int(text) if result.returncode == 0 and text.isdigit() and int(text) > 0 else None

    def commit(self, container: str, image: str) -> None:
        """Keep a container's root file system as an image."""
        self.must(*self.options, "commit", "--pause=true", container, image, timeout=_LONG)

    def find(self, labels: Mapping[str, str]) -> list[Container]:
        """Return the containers that have all these labels, running or not."""
        filters = [f"--filter=label={key}" + (f"={value}" if value else "") for key, value in labels.items()]
        names = self.must(*self.options, "ps", "--all", "--no-trunc", "--quiet", *filters).split()
        if not names:
            return []
        # A container that ends meanwhile fails the whole command, and is none to be found.
        result = self.call(*self.options, "container", "inspect", *names)
        try:
            found: list[dict[str, Any]] = json.loads(result.stdout)
        except ValueError:
            raise self.failure(("inspect",), result) from None
        return [Container(item["Name"].lstrip("/"), item["Config"].get("Labels") or {}) for item in found]

    def remove(self, container: str) -> None:
        """End and remove a container; one that is gone is no error."""
        result = self.call(*self.options, "rm", "--force", "--volumes", *self.stop_options(), container)
        words = result.stderr.decode("utf-8", "replace").lower()
        if result.returncode != 0 and "no such container" not in words and "no container with" not in words:
            raise self.failure(("rm",), result)

    def stop_options(self) -> list[str]:
        """Return the options that make removal not wait for the container to stop by itself."""
        return []

    def images(self, prefix: str) -> list[str]:
        """Return the names of images that start with a prefix."""
        names = self.must(*self.options, "images", "--format", "{{.Repository}}:{{.Tag}}").split()
        return [name for name in names if name.removeprefix("localhost/").startswith(prefix)]

    def remove_image(self, image: str) -> None:
        """Remove an image; one that is gone is no error."""
        result = self.call(*self.options, "rmi", "--force", image)
        if result.returncode != 0 and self.has_image(image):
            raise self.failure(("rmi",), result)


class Podman(ContainerEngine):
    """Podman: no daemon, root or an ordinary user."""

    name = program = "podman"

    def __init__(self) -> None:
        self.options = () if os.geteuid() == 0 else ("--storage-driver=overlay",)
        self.options += ("--log-level=error",)
        if (unified := Path("/sys/fs/cgroup/cgroup.controllers")) and not unified.exists():
            # crun fails on hybrid cgroups, and there may be no systemd to ask for one.
            self.options += ("--runtime=runc", "--cgroup-manager=cgroupfs")

    def tmpfs_options(self, size: int) -> str:
        """Return the options of a sized file system that belongs to the container's user.

        Podman would copy what the image has there, and give it the mode of the directory in the image.
        """
        return super().tmpfs_options(size) + ",notmpcopyup,U"

    def lifetime_options(self, spec: ContainerSpec) -> list[str]:
        """Return the options that let podman end a container in time."""
        return [f"--timeout={max(1, int(spec.lifetime))}"]

    def stop_options(self) -> list[str]:
        """Return the options that make removal not wait for the container to stop by itself."""
        return ["--time=0"]

    def security_options(self, spec: ContainerSpec) -> list[str]:
        """Return the options that filter system calls: podman's own filter lets everybody make namespaces."""
        # The host's devices are not a universe's business.
        options = ["--security-opt=mask=/sys"]
        if not _SECCOMP.is_file():
            return options
        path = spec.folder / "seccomp.json"
        path.write_text(json.dumps(without_namespaces(json.loads(_SECCOMP.read_bytes()))), encoding="utf-8")
        return [*options, f"--security-opt=seccomp={path}"]

    def probe(self) -> Probe:
        """Ask podman about itself, as it would make containers."""
        remedy = "install it: `apt install podman runc uidmap`, or `make system` in this repository"
        if not _installed(self):
            return Probe(False, "podman is not installed", remedy)
        result = self.call(*self.options, "info", "--format", "json", timeout=60)
        if result.returncode != 0:
            words = result.stderr.decode("utf-8", "replace").strip()[-500:]
            return Probe(False, f"podman does not work here: {words}", _rootless_remedy())
        host = json.loads(result.stdout)["host"]
        controllers = host.get("cgroupControllers") or []
        is_rootless = bool(host["security"]["rootless"])
        features = {"rootless": "yes" if is_rootless else "no: this is root"}
        for limit, controller in (("memory", "memory"), ("pids", "pids"), ("cpus", "cpu")):
            is_held = controller in controllers and not (is_rootless and host["cgroupVersion"] == "v1")
            why = f"no: this user cannot use the cgroup controller {controller!r} (cgroup {host['cgroupVersion']})"
            features[limit] = "yes" if is_held else why
        features["seccomp"] = "yes" if host["security"]["seccompEnabled"] else "no: podman was built without"
        features["disk"] = "yes"
        ids = sum(int(part["size"]) for part in host["idMappings"]["uidmap"] or ())
        if is_rootless and ids <= _USER_IDS:
            reason = f"this user has no subordinate ids, so that a container has {ids} user ids only"
            return Probe(False, reason, _rootless_remedy(), features)
        return Probe(True, features=features)


class Docker(ContainerEngine):
    """Docker, whose daemon runs as root."""

    name = program = "docker"

    def probe(self) -> Probe:
        """Ask the daemon about itself."""
        if not _installed(self):
            return Probe(False, "docker is not installed", "install it, or use podman")
        result = self.call(*self.options, "info", "--format", "{{json .}}", timeout=30)
        said = result.stdout.decode("utf-8", "replace")
        info = json.loads(said) if said.startswith("{") else {}
        if result.returncode != 0 or info.get("ServerErrors") or not info.get("ServerVersion"):
            words = result.stderr.decode("utf-8", "replace").strip() or " ".join(info.get("ServerErrors") or [])
            return Probe(False, f"docker does not answer: {words[-500:]}", "start its daemon, or use podman")
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


def _installed(engine: Engine) -> bool:
    from amplifier_digital_twin.errors import TwinError

    try:
        engine.executable()
    except TwinError:
        return False
    return True


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
