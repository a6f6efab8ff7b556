"""What the backends of container engines have in common: how a twin is made of a container, and found again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final, Protocol

from amplifier_digital_twin.backends.twin import Probe, Twin, TwinSpec
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base

#: What the first process of a twin does: wait for ever, and collect processes whose parents are gone.
FIRST_PROCESS: Final = "while :; do sleep 86400 & wait $!; done"
#: What root inside may do: what package installation needs, and nothing that reaches beyond files and own processes.
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
#: Said of a twin whose users are not told apart from the host's.
SAME_USERS: Final = "users inside have the numbers of the host's: root inside is the host's root, with few rights"
_IDENTIFIER: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")


class Engine(Protocol):
    """A program that runs containers, by its command line."""

    name: str

    async def probe(self) -> Probe:
        """Say whether it works; never raises."""
        ...

    async def images(self) -> Sequence[str]:
        """Name its own images, those of this program left out."""
        ...

    async def base_image(self, base: Base, cache: Path, progress: Callable[[str], None]) -> str:
        """Return the image of a base, made or fetched when it is not there; raise TwinError when it cannot be had."""
        ...

    async def start(self, spec: TwinSpec, image: str) -> Sequence[str]:
        """Make and start the container of a spec; return what is weaker than asked for."""
        ...

    def exec_argv(self, container: str, uid: int) -> list[str]:
        """Return the command that runs what is appended to it in a container, with stdin."""
        ...

    async def known_variables(self, container: str) -> Sequence[str]:
        """Name the variables that commands in the container get from the engine or the image."""
        ...

    async def pid(self, container: str) -> int | None:
        """Return the container's first process as the host numbers it; None when it does not run."""
        ...

    async def commit(self, container: str, image: str) -> None:
        """Keep a container's files as an image, in place of one of that name."""
        ...

    async def has_image(self, image: str) -> bool:
        """Tell whether an image of exactly that name is there."""
        ...

    async def remove_container(self, container: str, universe: str) -> None:
        """End and remove a container, when it is this user's and of that universe; one that is gone is no error."""
        ...

    async def remove_images(self, universe: str) -> None:
        """Remove the snapshots of a universe."""
        ...

    def snapshot_image(self, universe: str, name: str) -> str:
        """Name the image of a snapshot."""
        ...

    def layer_image(self, name: str) -> str:
        """Name the image of a provisioned layer."""
        ...


class EngineBackend:
    """A backend whose twins are containers of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = engine.name

    async def probe(self) -> Probe:
        """Say what can be done here; never raises."""
        return await self.engine.probe()

    async def images(self) -> Sequence[str]:
        """Name the base images that can be had: the host, Debian where one can be made, the engine's own."""
        from amplifier_digital_twin.apt_sources import RELEASES
        from amplifier_digital_twin.base_systems import builder

        found = ["host"] if self.name != "incus" else []
        try:
            builder()
            found += [f"debian:{number}" for number in RELEASES]
        except TwinError:
            pass  # what cannot be made is not named
        try:
            found += await self.engine.images()
        except TwinError:
            pass  # an engine that does not answer has none to offer; the probe says why
        return found

    def expecting(self) -> AbstractAsyncContextManager[None]:
        """Do nothing: the engine is there already."""
        return nullcontext()

    async def create(self, spec: TwinSpec, progress: Callable[[str], None]) -> Twin:
        """Make and start a twin; raise TwinError, with nothing left behind, when that cannot be done."""
        from amplifier_digital_twin.backends.engine_twin import EngineTwin

        check_identifier(spec.id)
        probe = await self.engine.probe()
        if not probe.is_available:
            raise TwinError("backend_unavailable", f"{self.name}: {probe.reason}", "choose another `backend`")
        missing = [f"{name} ({probe.features.get(name, 'unknown')})" for name in spec.require if not has(probe, name)]
        if missing:
            raise TwinError(
                "feature_missing",
                f"{self.name} lacks what the profile requires: {', '.join(missing)}",
                "choose another backend, or take it out of `require`",
            )
        base = await self.engine.base_image(spec.base, spec.cache, progress)
        if spec.layer is None:
            image = base
        else:
            image = self.engine.layer_image(check_tag(spec.layer))
            if not await self.engine.has_image(image):
                raise TwinError(
                    "layer_missing", f"{self.name} keeps no layer {spec.layer!r}", "provision the universe again"
                )
        twin = EngineTwin(self.engine, spec, base)
        await twin.start(image)
        return twin

    async def has_layer(self, cache: Path, layer: str) -> bool:
        """Tell whether a provisioned layer of that name is kept."""
        return await self.engine.has_image(self.engine.layer_image(check_tag(layer)))

    async def remove(self, folder: Path, universe: str) -> None:
        """Remove the container and the snapshots of a universe, by their exact names; layers stay for others."""
        check_identifier(universe)
        try:
            await self.engine.remove_container(container_name(universe), universe)
            await self.engine.remove_images(universe)
        except TwinError as error:
            if error.code != "engine_missing":
                raise


def has(probe: Probe, feature: str) -> bool:
    """Tell whether a probe found a feature."""
    return probe.features.get(feature) == "yes"


def container_name(universe: str) -> str:
    """Name the container of a universe."""
    return f"amplifier-twin-{universe}"


def check_identifier(universe: str) -> str:
    """Return an identifier that is fit for names of containers and images; raise TwinError for another."""
    if not _IDENTIFIER.fullmatch(universe):
        raise TwinError("name_invalid", f"{universe!r} is no identifier of a universe", "use the one `list` shows")
    return universe


def check_tag(name: str) -> str:
    """Return the name of a snapshot that is fit for an image; raise TwinError for another."""
    if not _TAG.fullmatch(name):
        raise TwinError(
            "name_invalid",
            f"{name!r} is no name for a snapshot",
            "use letters, digits, dots, dashes and underscores, with a letter or digit first",
        )
    return name


def owner() -> str:
    """Return the user that containers are labelled with."""
    return str(os.geteuid())
