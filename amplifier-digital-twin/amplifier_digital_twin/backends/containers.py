"""The command line that podman and docker share: containers with no network, few rights and explicit limits."""

from __future__ import annotations

import asyncio
import json
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from amplifier_digital_twin.backends.calls import Answer, ask, find_program
from amplifier_digital_twin.backends.engine import CAPABILITIES, FIRST_PROCESS, check_identifier, container_name, owner
from amplifier_digital_twin.backends.twin import Probe, TwinSpec
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base

#: Every name of ours starts so: a host name that no registry has.
PREFIX: Final = "localhost/amplifier-twin"
LABEL: Final = "amplifier.twin"
#: No engine asks for more than it may: it would fail as soon as the system allows less.
_MOST_FILES: Final = 16_384
_MOST_PROCESSES: Final = 16_384
#: How long the engine may take for whole systems, in seconds.
LONG: Final = 30 * 60.0


class ContainerEngine(ABC):
    """What podman and docker do alike."""

    name: str
    #: Words after `run` that only one of them knows.
    run_words: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        #: Words between the program and its command.
        self.global_words: tuple[str, ...] = ()

    @abstractmethod
    async def probe(self) -> Probe:
        """Say whether it works; never raises."""

    def identity_words(self, spec: TwinSpec) -> list[str]:
        """Return the words that make ids inside others than the host's."""
        return []

    def filter_words(self, spec: TwinSpec) -> list[str]:
        """Return the words that put a filter of ours on the calls of a container; raises OSError."""
        return []

    async def limit_words(self, spec: TwinSpec) -> tuple[list[str], list[str]]:
        """Return the words that limit a container, and what is weaker than asked for."""
        limits = spec.limits
        words = [] if limits.memory is None else ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
        words += [] if limits.pids is None else ["--pids-limit", str(limits.pids)]
        words += [] if limits.cpus is None else ["--cpus", f"{limits.cpus:g}"]
        return words, []

    def most_processes(self, spec: TwinSpec) -> int:
        """Return how many processes each user inside may have; all together are limited by control groups."""
        return allowed(resource.RLIMIT_NPROC, _MOST_PROCESSES)

    def program(self) -> str:
        """Return the path of the program; raise TwinError when it is not installed."""
        if path := find_program(self.name):
            return path
        raise TwinError("engine_missing", f"{self.name} is not installed", f"install {self.name}")

    async def call(self, *words: str, timeout: float = 120.0) -> Answer:
        """Run a command of the engine, whatever comes of it."""
        return await ask([self.program(), *self.global_words, *words], timeout=timeout)

    async def must(self, *words: str, timeout: float = 120.0) -> str:
        """Run a command of the engine and return what it says; raise TwinError when it fails."""
        answer = await self.call(*words, timeout=timeout)
        if answer.returncode != 0:
            raise TwinError(
                "engine_failed", f"{self.name} {words[0]}: {answer.reason}", f"see whether {self.name} works by itself"
            )
        return answer.stdout

    async def images(self) -> Sequence[str]:
        """Name its own images, those of this program left out."""
        names = (await self.must("images", "--format", "{{.Repository}}:{{.Tag}}")).split()
        return [name for name in dict.fromkeys(names) if not name.startswith(PREFIX) and "<none>" not in name]

    async def base_image(self, base: Base, cache: Path, progress: Callable[[str], None]) -> str:
        """Return the image of a base, made or fetched when it is not there; raise TwinError when it cannot be had."""
        from amplifier_digital_twin.base_systems import check_host_packages, debian_suite, root_archive

        if base.tar is None and base.image == "host":
            await check_host_packages(base.packages)
            return await self._host_image(cache, progress)
        if base.tar is None and debian_suite(base.image) is None:
            return await self._own_image(base, progress)
        archive = await root_archive(base, cache, progress)
        key = base.tar.sha256.lower() if base.tar is not None else archive.stem
        return await self._imported(f"{PREFIX}-base:{key}", archive, progress)

    async def _host_image(self, cache: Path, progress: Callable[[str], None]) -> str:
        import tempfile

        from amplifier_digital_twin.backends.host_image import host_image_key, write_host_archive

        image = f"{PREFIX}-base:{host_image_key()}"
        if await self.has_image(image):
            return image
        await asyncio.to_thread(lambda: cache.mkdir(parents=True, exist_ok=True, mode=0o700))
        with tempfile.TemporaryDirectory(prefix=".host-", dir=cache) as folder:
            archive = Path(folder) / "root.tar"
            await asyncio.to_thread(write_host_archive, archive)
            return await self._imported(image, archive, progress)

    async def _own_image(self, base: Base, progress: Callable[[str], None]) -> str:
        if base.packages:
            raise TwinError(
                "image_unavailable",
                f"Debian packages cannot be added to the image {base.image!r}",
                "use an image that has them, or the base debian:12",
            )
        if base.image.startswith("-"):
            raise TwinError("profile_invalid", f"{base.image!r} is no name of an image", "correct `base.image`")
        if not await self.has_image(base.image):
            progress(f"{self.name} fetches the image {base.image}")
            answer = await self.call("pull", "--quiet", base.image, timeout=LONG)
            if answer.returncode != 0:
                own = ", ".join(["host", "debian:12", *await self.images()])
                raise TwinError(
                    "image_unavailable",
                    f"{self.name} cannot fetch the image {base.image!r}: {answer.reason}",
                    f"use one of: {own}",
                )
        return base.image

    async def _imported(self, image: str, archive: Path, progress: Callable[[str], None]) -> str:
        if not await self.has_image(image):
            progress(f"{self.name} imports the base system {archive.name}")
            await self.must("import", str(archive), image, timeout=LONG)
        return image

    async def start(self, spec: TwinSpec, image: str) -> Sequence[str]:
        """Make and start the container of a spec; return what is weaker than asked for."""
        words, notes = await self.run_arguments(spec, image)
        await self.must(*words, timeout=LONG)
        return notes

    async def run_arguments(self, spec: TwinSpec, image: str) -> tuple[list[str], list[str]]:
        """Return the words that start a container, and what is weaker than asked for."""
        limits, notes = await self.limit_words(spec)
        words = ["run", "--detach", "--pull", "never", "--name", container_name(spec.id), "--hostname", spec.hostname]
        words += ["--label", f"{LABEL}.id={spec.id}", "--label", f"{LABEL}.owner={owner()}"]
        words += ["--network", "host" if spec.network == "host" else "none"]
        words += ["--cap-drop", "ALL", *(word for name in CAPABILITIES for word in ("--cap-add", name))]
        words += ["--security-opt", "no-new-privileges", "--user", "0:0", "--workdir", "/", "--no-healthcheck"]
        words += ["--log-driver", "none", "--restart", "no", "--stop-signal", "SIGKILL"]
        words += [*self.run_words, *self.identity_words(spec), *self.filter_words(spec), *limits]
        files, processes = allowed(resource.RLIMIT_NOFILE, _MOST_FILES), self.most_processes(spec)
        words += ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]
        words += ["--ulimit", "core=0:0"]
        if spec.limits.disk is not None:
            most = allowed(resource.RLIMIT_FSIZE, spec.limits.disk)
            words += ["--ulimit", f"fsize={most}:{most}"]
            notes.append(f"disk is limited for each file, not for all together: {self.name} has no quota here")
        words += ["--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777", "--tmpfs", "/run:rw,exec,nosuid,nodev,mode=755"]
        if spec.base.image == "host" and spec.base.tar is None:
            from amplifier_digital_twin.backends.host_image import host_mounts

            words += [word for folder in host_mounts() for word in ("--volume", f"{folder}:{folder}:ro")]
        return [*words, "--entrypoint", "/bin/sh", image, "-c", FIRST_PROCESS], notes

    def exec_argv(self, container: str, uid: int) -> list[str]:
        """Return the command that runs what is appended to it in a container, with stdin."""
        words = ["exec", "--interactive", "--user", f"{uid}:{uid}", "--workdir", "/", container]
        return [self.program(), *self.global_words, *words]

    async def inspect(self, container: str) -> dict[str, Any] | None:
        """Return what the engine knows of a container; None when there is none of exactly that name."""
        answer = await self.call("container", "inspect", container)
        if answer.returncode != 0:
            if "no such" in answer.reason.lower() or "no container" in answer.reason.lower():
                return None
            raise TwinError("engine_failed", f"{self.name} inspect: {answer.reason}", f"see whether {self.name} works")
        found: list[dict[str, Any]] = json.loads(answer.stdout)
        return next((entry for entry in found if str(entry.get("Name", "")).lstrip("/") == container), None)

    async def known_variables(self, container: str) -> Sequence[str]:
        """Name the variables that commands in the container get from the engine or the image."""
        found = await self.inspect(container)
        entries = ((found or {}).get("Config") or {}).get("Env") or []
        return [str(entry).partition("=")[0] for entry in entries]

    async def pid(self, container: str) -> int | None:
        """Return the container's first process as the host numbers it; None when it does not run."""
        found = await self.inspect(container)
        state = (found or {}).get("State") or {}
        return int(state["Pid"]) if state.get("Running") and state.get("Pid") else None

    async def commit(self, container: str, image: str) -> None:
        """Keep a container's files as an image, in place of one of that name."""
        await self.replace_image(image, "commit", container, image)

    async def replace_image(self, image: str, *words: str) -> None:
        """Let a command make an image; the one that had its name before goes."""
        before = await self._image_id(image)
        await self.must(*words, timeout=LONG)
        if before is not None and before != await self._image_id(image):
            # Nobody finds it by a name any more; another image may stand on it, and then it stays.
            await self.call("image", "rm", before)

    async def has_image(self, image: str) -> bool:
        """Tell whether an image of exactly that name is there."""
        return await self._image_id(image) is not None

    async def _image_id(self, image: str) -> str | None:
        answer = await self.call("image", "inspect", "--format", "{{.Id}}", image)
        return answer.stdout.strip() or None if answer.returncode == 0 else None

    async def remove_container(self, container: str, universe: str) -> None:
        """End and remove a container, when it is this user's and of that universe; one that is gone is no error."""
        found = await self.inspect(container)
        if found is None:
            return
        labels = (found.get("Config") or {}).get("Labels") or {}
        if labels.get(f"{LABEL}.id") != universe or labels.get(f"{LABEL}.owner") != owner():
            raise TwinError(
                "not_ours",
                f"the container {container} is not one that this user's universe {universe} made",
                f"look at it: {self.name} inspect {container}",
            )
        answer = await self.call("rm", "--force", "--volumes", str(found["Id"]))
        if answer.returncode != 0 and await self.inspect(container) is not None:
            raise TwinError(
                "engine_failed", f"{self.name} cannot remove {container}: {answer.reason}", "remove it by hand"
            )

    async def remove_images(self, universe: str) -> None:
        """Remove the snapshots of a universe."""
        repository = f"{PREFIX}/{check_identifier(universe)}"
        names = (await self.must("images", "--format", "{{.Repository}}:{{.Tag}}")).split()
        for name in dict.fromkeys(names):
            if name.rpartition(":")[0] == repository:
                await self.must("image", "rm", name)

    def snapshot_image(self, universe: str, name: str) -> str:
        """Name the image of a snapshot."""
        return f"{PREFIX}/{check_identifier(universe)}:{name}"

    def layer_image(self, name: str) -> str:
        """Name the image of a provisioned layer."""
        return f"{PREFIX}-layer:{name}"


def allowed(limit: int, most: int) -> int:
    """Return a limit that this process may set: an engine may not raise what the system allows."""
    _, hard = resource.getrlimit(limit)
    return most if hard == resource.RLIM_INFINITY else min(most, hard)
