"""A container engine for tests whose containers are this machine: commands run here, in a directory of the test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amplifier_digital_twin.engines.engine import ContainerSpec, Engine, Probe


class HostEngine(Engine):
    """Runs everything on the host; only for commands that a test wrote."""

    name = "host"

    def __init__(self, probe: Probe | None = None) -> None:
        self.answer = probe or Probe(True, features=dict.fromkeys(("memory", "pids", "cpus", "disk"), "yes"))
        #: Their labels, by name.
        self.containers: dict[str, Mapping[str, str]] = {}
        self.images_made: list[str] = []

    def probe(self) -> Probe:
        return self.answer

    def has_image(self, image: str) -> bool:
        return image in self.images_made

    def import_image(self, archive: Path, image: str) -> None:
        self.images_made.append(image)

    def create(self, spec: ContainerSpec) -> None:
        self.containers[spec.name] = spec.labels

    def exec_argv(
        self, container: str, uid: int, gid: int | None = None, cwd: str = "/", environment: Mapping[str, str] = {}
    ) -> list[str]:
        return ["/usr/bin/env", f"--chdir={cwd}", *(f"{key}={value}" for key, value in environment.items())]

    def init_pid(self, container: str) -> int | None:
        return 1

    def commit(self, container: str, image: str) -> None:
        self.images_made.append(image)

    def find(self, labels: Mapping[str, str]) -> list[str]:
        return [
            name
            for name, own in self.containers.items()
            if all(key in own and value in ("", own[key]) for key, value in labels.items())
        ]

    def remove(self, container: str) -> None:
        self.containers.pop(container, None)

    def remove_image(self, image: str) -> None:
        self.images_made = [each for each in self.images_made if each != image]
