"""Everything that a universe takes for the world, made for one profile and served through its own sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_digital_twin.backends.twin import Sockets
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Profile
from amplifier_digital_twin.remembered import Remembered
from amplifier_digital_twin.services.addresses import GATEWAY, GIT, INDEX, INTERCEPTED_HOST, INTERCEPTED_PORTS
from amplifier_digital_twin.services.allow import AllowList
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.git_mirror import GitMirror
from amplifier_digital_twin.services.rewrites import Routes
from amplifier_digital_twin.services.surroundings import CA_BUNDLE, hosts_file, trusted_certificates, uv_shim

if TYPE_CHECKING:
    from amplifier_digital_twin.services.authority import Authority
    from amplifier_digital_twin.services.foresight_process import ForesightProcess
    from amplifier_digital_twin.services.gateway import Gateway
    from amplifier_digital_twin.services.host_index import HostIndex
    from amplifier_digital_twin.services.interceptor import Interceptor
    from amplifier_digital_twin.services.package_index import PackageIndex

#: Names in `network.allow` that stand for what the host itself is set up for.
PACKAGE_INDEX: Final = "@package-index"
APT: Final = "@apt"

_CONNECT_TIMEOUT: Final = 10.0


class World:
    """The services of one universe; `prepare` first, then `serve` in every twin that is to see them."""

    def __init__(self, profile: Profile, folder: Path, cache: Path, decisions: Decisions) -> None:
        self.profile = profile
        self.decisions = decisions
        self.mirror = GitMirror(profile.repositories, folder / "repositories", decisions)
        self.index: PackageIndex | None = None
        #: What builds of wheels see, in a launch and in an update alike: nothing that was built before.
        self.build_index: PackageIndex | None = None
        self._cache = cache
        self._routes = Routes(profile.rewrites, profile.mocks)
        self._authority: Authority | None = None
        self._upstream_index: HostIndex | None = None
        self._allow = AllowList(())
        self._private: frozenset[str] = frozenset()
        self._environ: Mapping[str, str] = {}
        self._foresight: ForesightProcess | None = None
        #: What listens, by the way into the twin it listens in.
        self._doors: dict[Sockets, list[Gateway | Interceptor]] = {}
        self._sites: dict[Sockets, list[asyncio.Server]] = {}

    @property
    def is_needed(self) -> bool:
        """Tell whether anything is to be served: without a network, only what the profile itself brings."""
        profile = self.profile
        brought = (profile.repositories, profile.packages, profile.rewrites, profile.mocks)
        return profile.network.mode == "gateway" or (profile.network.mode == "none" and any(brought))

    @property
    def index_url(self) -> str | None:
        """Return the package index as programs inside are told of it; None when nothing is served."""
        # It changes with what is served: installers must not take a wheel of yesterday for that of today.
        return self.index.url() if self.index is not None else None

    async def prepare(self, environ: Mapping[str, str]) -> None:
        """Take the working trees as they are, and find out what the host is set up for; raise TwinError."""
        profile = self.profile
        brought = (profile.repositories, profile.packages, profile.rewrites, profile.mocks)
        if profile.network.mode == "host" and any(brought):
            raise TwinError(
                "network_host",
                f"{profile.path}: with `network: host` nothing can be answered in place of the world",
                "use `network: {mode: gateway}`, or take repositories, packages, rewrites and mocks out",
            )
        if not self.is_needed:
            return
        self._environ = environ
        # Both to their end, so that nothing goes on when one of them fails.
        parts = (self.mirror.prepare(), self._open_up(environ))
        for end in await asyncio.gather(*parts, return_exceptions=True):
            if isinstance(end, BaseException):
                raise end
        from amplifier_digital_twin.services.authority import Authority
        from amplifier_digital_twin.services.package_index import PackageIndex

        self._authority = Authority.create(self._routes.hosts) if self._routes.hosts else None
        self.index, self.build_index = (
            PackageIndex({}, self._upstream_index, self._cache / "index", self.decisions) for _ in range(2)
        )

    async def _open_up(self, environ: Mapping[str, str]) -> None:
        # Beside the loop, which has git to start: a launch is short enough for that to count.
        await asyncio.to_thread(_import_services)
        entries: list[str] = []
        private: set[str] = set()
        for entry in self.profile.network.allow if self.profile.network.mode == "gateway" else ():
            if entry == PACKAGE_INDEX:
                from amplifier_digital_twin.services.host_index import HostIndex

                self._upstream_index = await HostIndex.from_host(environ, Remembered(self._cache / "answers"))
                found: Sequence[str] = sorted(self._upstream_index.hosts())
            elif entry == APT:
                from amplifier_digital_twin.apt_sources import apt_sources, debian_mirror

                found = debian_mirror(apt_sources()).hosts()
            else:
                entries.append(entry)
                continue
            # The host's own index or mirror may well be in a private network; it was asked for by name.
            entries.extend(found)
            private.update(found)
        self._allow = AllowList(entries)
        self._private = frozenset(private)

    async def look_into_wheels(self) -> None:
        """Look into the wheels that stand in for published ones; raise TwinError for one that is not what it says."""
        if self.index is not None:
            await asyncio.to_thread(self.index.look_into)

    def expect_builds(self) -> None:
        """Get ready for wheels to be built, and then installed with all that they need."""
        self.mirror.expect_clones()
        if self.index is None or self._upstream_index is None or self._foresight is not None:
            return
        from amplifier_digital_twin.services.foresight_process import ForesightProcess

        names = [package.name for package in self.profile.packages]
        repositories = [repository.path for repository in self.profile.repositories]
        self._foresight = ForesightProcess(self._cache, names, repositories, self._environ)

    def files(self, hostname: str) -> dict[str, tuple[bytes, int]]:
        """Return the files that lead programs inside to the services: content and permissions by path."""
        found = {"/etc/hosts": (hosts_file(hostname, sorted(self._routes.hosts)), 0o644)}
        if self.profile.network.mode != "host":
            found["/etc/resolv.conf"] = (b"# there is no name service here: the gateway resolves names\n", 0o644)
        if self.is_needed:
            authority = self._authority.certificate_pem if self._authority is not None else None
            found[CA_BUNDLE] = (trusted_certificates(authority, self._environ), 0o644)
            found["/etc/gitconfig"] = (self.mirror.git_config().encode(), 0o644)
        if "uv" in self.profile.base.tools:
            found["/opt/twin/bin/uv"] = (uv_shim(self.profile.uv.lock), 0o755)
        return found

    async def serve(self, sockets: Sockets, *, for_building: bool = False) -> None:
        """Listen inside a twin; `sockets` are also the way to its mock services."""
        index = self.build_index if for_building else self.index
        if not self.is_needed or index is None:
            return
        from amplifier_digital_twin.services.authority import Authority
        from amplifier_digital_twin.services.gateway import Gateway
        from amplifier_digital_twin.services.interceptor import Interceptor
        from amplifier_digital_twin.services.upstream import Upstream

        async def inside(host: str, port: int) -> socket.socket:
            return await sockets.connect(host, port, _CONNECT_TIMEOUT)

        upstream = Upstream(self._environ, self._private, connect=inside)
        # Without a name that is answered for, an authority without names: it can vouch for nobody.
        authority = self._authority or Authority.create(())
        parts = (self._allow, self.decisions, self._routes, authority, upstream)
        gateway = Gateway(*parts)
        doors: list[Gateway | Interceptor] = [gateway]
        self._doors[sockets] = doors
        await gateway.serve([await sockets.listen(*GATEWAY)])
        sites = self._sites.setdefault(sockets, [])
        sites.append(await self.mirror.serve(await sockets.listen(*GIT)))
        sites.append(await index.serve(await sockets.listen(*INDEX)))
        if self._routes.hosts:
            interceptor = Interceptor(*parts)
            doors.append(interceptor)
            await interceptor.serve([await sockets.listen(INTERCEPTED_HOST, port) for port in INTERCEPTED_PORTS])

    async def leave(self, sockets: Sockets) -> None:
        """Stop listening in a twin that is about to end; a second time does nothing."""
        for door in self._doors.pop(sockets, []):
            await door.close()
        for site in self._sites.pop(sockets, []):
            site.close()

    async def close(self) -> None:
        """Stop serving and remove what was exported; a second time does nothing."""
        for sockets in list(self._doors):
            await self.leave(sockets)
        if self._foresight is not None:
            await self._foresight.close()
        await self.mirror.close()
        for index in (self.index, self.build_index):
            if index is not None:
                await index.close()
        if self._upstream_index is not None:
            await self._upstream_index.close()

    def fingerprint(self) -> dict[str, str]:
        """Return what is served, for the name of a provisioned layer."""
        if self.index is None:
            return {}
        return {"git": self.mirror.fingerprint(), "packages": self.index.fingerprint()}

    def build_fingerprint(self) -> tuple[str, str]:
        """Return what builds of wheels see, for the place where these are kept."""
        packages = self.build_index.fingerprint() if self.build_index is not None else ""
        return self.mirror.fingerprint(), packages


def _import_services() -> None:
    """Import what is served with, while git is busy."""
    import h11  # noqa: F401 - for those who import it when they are asked

    from amplifier_digital_twin import wheel_building  # noqa: F401
    from amplifier_digital_twin.services import gateway, host_index, interceptor, package_index  # noqa: F401


def for_building(profile: Profile) -> Profile:
    """Return the profile of a throw-away twin in which wheels are built: the same base and network, nothing else."""
    return dataclasses.replace(profile, rewrites=(), mocks=(), packages=(), secrets=(), environment=())
