"""One universe: the twin, the world around it, and everything that can be done with the two."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.backends.twin import Backend, Finished, Run, Sink, Sockets, Twin
from amplifier_digital_twin.departures import Departures
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.host_tools import host_facts
from amplifier_digital_twin.mocks import Mocks
from amplifier_digital_twin.plan import Plan
from amplifier_digital_twin.port_forwards import PortForwards
from amplifier_digital_twin.profile.model import Profile, PushedFile, User
from amplifier_digital_twin.provisioning import Provisioner
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.secret_values import SecretValues
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.surroundings import environment
from amplifier_digital_twin.services.world import World, for_building
from amplifier_digital_twin.specification import specify
from amplifier_digital_twin.state import Place
from amplifier_digital_twin.wall_time import within_wall

_ALIVE_POLL: Final = 1.0
#: What provisioning made, when it must not outlive the universe.
_PROVISIONED: Final = "provisioned"


class Universe:
    """Made by `launch`, ended by `destroy`; every method raises TwinError for what cannot be done."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        place: Place,
        recorder: Recorder,
        environ: Mapping[str, str],
        evidence: Path,
    ) -> None:
        self.profile = plan.profile
        self._plan = plan
        self._backend = backend
        self._place = place
        self._recorder = recorder
        self._environ = environ
        self._evidence = evidence
        self._id = place.read().id
        self._secrets = SecretValues.of(self.profile, environ)
        self._world = World(self.profile, place.folder, place.cache, Decisions(place.decisions))
        self._mocks = Mocks(self.profile.mocks, recorder)
        self._forwards = PortForwards(self.profile.access.ports, self.way_in)
        self._twin: Twin | None = None
        self._sockets: Sockets | None = None
        self._layer: str | None = None
        self._is_warm = False
        #: The snapshot that is the start, where it is not the twin's own.
        self._start: str | None = None
        #: While it is reset its twin does not run, and that is no end.
        self._is_resetting = False
        self._departures = Departures(place)
        self._over = asyncio.Event()

    # -- from nothing to ready --

    async def launch(self) -> dict[str, Any]:
        """Make everything, once; what provisioning leaves is kept as a layer, which the next launch starts from."""
        try:
            async with within_wall(self.profile.limits.wall, "launching"), self._backend.expecting():
                with self._recorder.timed("launch"):
                    return await self._launch()
        except TwinError as error:
            from amplifier_digital_twin.checking import keep_failure

            await keep_failure(self, self._evidence, error)
            raise

    async def _launch(self) -> dict[str, Any]:
        recorder = self._recorder
        for note in self._plan.notes:
            recorder.progress(f"note: {note}")
        with recorder.timed("world"):
            await self._world.prepare(self._environ)
            await self._gather_wheels()
        self._layer = await self._layer_name()
        self._is_warm = await self._backend.has_layer(self._place.cache, self._layer)
        if not self._is_warm:  # else it was done for the layer, whose name holds their hashes
            await self._world.look_into_wheels()
        recorder.progress(f"starting a twin on {self._backend.name}" + (", provisioned before" * self._is_warm))
        with recorder.timed("create"):
            self._twin = await self._create(self.profile, self._id, self._layer if self._is_warm else None)
            for note in self._twin.notes:
                recorder.progress(f"note: {note}")
            await self._attach()
        await (self._start_mocks() if self._is_warm else self._provision())
        await self._forwards.open()
        await self._await_readiness()
        await self._departures.wait()
        return await self.status()

    async def _gather_wheels(self) -> None:
        if not self.profile.packages or self._world.index is None:
            return
        from amplifier_digital_twin.wheel_building import Wheels

        found = await Wheels(self.profile, self._world, self._place.cache, self._recorder).gather(self._builder)
        self._world.index.replace(found)

    @asynccontextmanager
    async def _builder(self) -> AsyncIterator[Twin]:
        """Give a twin of the same base in which wheels are built, and throw it away."""
        await self._departures.wait()
        self._recorder.progress("starting a throw-away twin to build in")
        self._world.expect_builds()
        identifier = f"{self._id}-build"
        made = await self._create(for_building(self.profile), identifier, None)
        async with self._departures.after(made, identifier) as twin:
            sockets = await twin.sockets()
            try:
                await self._world.serve(sockets, for_building=True)
                yield twin
            finally:
                await self._world.leave(sockets)
                await sockets.close()

    async def _layer_name(self) -> str:
        from amplifier_digital_twin.profile.describe import fingerprint

        served = {**self._world.fingerprint(), "backend": self._backend.name, "user": str(os.geteuid())}
        # Commands may do something else without a secret; its value does not count, and is nowhere.
        served |= {"secrets": " ".join(sorted(self._secrets.by_name)), "host": host_facts(self.profile.base)}
        try:
            return await asyncio.to_thread(fingerprint, self.profile, served)
        except OSError as error:
            what = f"{error.filename}: {error.strerror or error}"
            raise TwinError("source_unreadable", what, "see `provision.files` and `packages` in the profile") from error

    async def _create(self, profile: Profile, identifier: str, layer: str | None) -> Twin:
        spec = specify(profile, self._world, self._place, identifier, layer)
        # Written down before it exists: whoever finds this universe dead knows what to remove.
        self._place.add_twin(self._backend.name, identifier, spec.folder)
        return await self._backend.create(spec, self._recorder.progress)

    async def _attach(self) -> None:
        """Serve the world in the twin as it is now."""
        if self.profile.network.mode != "host":
            self._sockets = await self._need_twin().sockets()
            await self._world.serve(self._sockets)

    async def _start_mocks(self) -> None:
        if self.profile.mocks:
            user = self.profile.user
            await self._mocks.start(self._need_twin(), await self.way_in(), self._environment(user), user)

    async def _provision(self) -> None:
        recorder, twin = self._recorder, self._need_twin()
        provisioner = self._provisioner()
        with recorder.timed("provision"):
            for file in self.profile.provision.files:
                recorder.progress(f"pushing {file.src.name} to {file.dest}")
                await provisioner.push(file)
            await self._start_mocks_early()
            await provisioner.commands(self.profile.provision.commands)
        with recorder.timed("provenance"):
            await self._prove_provenance()
        if self._layer is not None and (self.profile.provision.files or self.profile.provision.commands):
            with recorder.timed("layer"):
                await self._keep_layer(twin, self._layer)

    async def _keep_layer(self, twin: Twin, layer: str) -> None:
        """Keep what provisioning made; with a secret in it, only as long as this universe is there."""
        # What a provisioned start has not, this one has not either: no process outlives its provisioning.
        await self._mocks.stop()
        await self._leave()
        try:
            await self._secrets.check_files(twin, self.profile.user)
        except TwinError as error:
            self._recorder.progress(f"note: the next launch provisions again: {error.message}")
            self._start = _PROVISIONED
            await twin.snapshot(_PROVISIONED)
            await twin.reset(_PROVISIONED)
        else:
            await twin.snapshot(layer, cache=True)
        await self._attach()
        await self._start_mocks()

    async def _start_mocks_early(self) -> None:
        """Let commands of `provision` use the mocks, where these do not need what the commands install."""
        try:
            await self._start_mocks()
        except TwinError as error:
            if not self.profile.provision.commands:
                raise
            self._recorder.progress(f"note: {error.message}; it is started again after the commands of `provision`")
            await self._mocks.stop()

    async def _prove_provenance(self) -> None:
        """Compare what was installed with what was served; a mismatch ends the launch."""
        if not self._world.is_needed:
            return
        wrong = [finding for finding in await self.provenance("all") if not finding.is_ok]
        if wrong:
            lines = "\n".join(f"  {finding.name} {finding.version}: {finding.reason}" for finding in wrong)
            raise TwinError(
                "provenance_mismatch",
                f"what was installed is not what this universe served:\n{lines}",
                "see what the commands of `provision` ask for; uv must not take the fast path past the mirror",
            )

    async def _await_readiness(self) -> None:
        from amplifier_digital_twin.readiness import wait_ready

        if not self.profile.readiness:
            return
        self._recorder.progress("waiting until it is ready")
        signs = await self._signs(wait_ready)
        if missing := "; ".join(f"{sign['name']}: {sign['reason']}" for sign in signs if not sign["ready"]):
            raise TwinError("not_ready", f"the universe is not ready: {missing}", "see `readiness` in the profile")

    # -- what can be asked of it --

    async def ended(self) -> str:
        """Return, with the reason, when the twin is gone."""
        while not self._over.is_set():
            if self._twin is not None and not self._twin.is_running and not self._is_resetting:
                return "its twin has ended"
            await asyncio.sleep(_ALIVE_POLL)
        return "it was destroyed"

    async def exec(
        self, command: Sequence[str] | str, user: str | None, timeout: float | None, sink: Sink | None
    ) -> Finished:
        """Run a command in the user's home: words as they are, or a line for the shell."""
        who = self._provisioner().user_named(user)
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        run = Run(argv, self._environment(who), who, who.home, timeout=timeout)
        return await self._need_twin().run(run, sink)

    async def check_readiness(self) -> dict[str, Any]:
        """Look once at every sign of readiness."""
        from amplifier_digital_twin.readiness import wait_ready

        signs = await self._signs(wait_ready, once=True)
        return {"ready": all(sign["ready"] for sign in signs), "readiness": signs}

    async def update(self) -> dict[str, Any]:
        """Serve the working trees as they are now, wheels built again where asked for; run the update's commands."""
        update = self.profile.update
        await self._world.mirror.prepare()
        if update.refresh_packages:
            await self._gather_wheels()
            await self._world.look_into_wheels()
        await self._provisioner().commands(update.commands)
        if update.commands:  # else nothing was installed anew, and what there is was of the trees before
            await self._prove_provenance()
        return {"updated": True, "commits": {url: dict(refs) for url, refs in self._world.mirror.commits.items()}}

    async def status(self) -> dict[str, Any]:
        """Tell what is to be told."""
        twin = self._twin
        return {
            "backend": self._backend.name,
            "base": self.profile.base.image,
            "user": self.profile.user.name,
            "running": twin is not None and twin.is_running,
            "warm": self._is_warm,
            "layer": self._layer,
            "ports": list(self._forwards.opened),
            "notes": [*self._plan.notes, *(twin.notes if twin is not None else ())],
            "refused_hosts": sorted(self._world.decisions.refused_hosts()),
            "timings": dict(self._recorder.timings),
        }

    async def push(self, file: PushedFile) -> dict[str, Any]:
        """Copy a file or folder of the host into the universe."""
        return {"pushed": await self._provisioner().push(file)}

    async def pull(self, source: str, destination: Path) -> dict[str, Any]:
        """Copy files of the universe to a folder of the host; links and devices are left out, and named."""
        return await self._provisioner().pull(source, destination)

    async def snapshot(self, name: str) -> dict[str, Any]:
        """Keep the file system as it is under a name; raise TwinError when a secret is in its files."""
        await self._secrets.check_files(self._need_twin(), self.profile.user)
        await self._need_twin().snapshot(name)
        return {"snapshot": name}

    async def reset(self, name: str | None) -> dict[str, Any]:
        """Go back to a snapshot, or to how provisioning left it; everything that runs inside ends."""
        twin = self._need_twin()
        self._is_resetting = True
        try:
            await self._mocks.stop()
            try:
                await twin.reset(name or self._start)
            except TwinError:
                if twin.is_running:  # there is no such snapshot: the universe goes on as it was
                    await self._start_mocks()
                raise
            await self._leave()
            await self._attach()
            await self._start_mocks()
        finally:
            self._is_resetting = False
        return {"reset": name}

    async def check(self) -> dict[str, Any]:
        """Run the profile's checks, collect the evidence, and return the verdict."""
        from amplifier_digital_twin.checking import check_universe

        async with within_wall(self.profile.limits.wall, "checking"):
            with self._recorder.timed("checks"):
                return await check_universe(self, self._evidence)

    async def destroy(self) -> None:
        """End everything and remove every trace but the universe's folder; a second time does nothing."""
        self._over.set()
        await self._forwards.close()
        await self._mocks.stop()
        await self._leave()
        twin, self._twin = self._twin, None
        try:
            if twin is not None:
                await twin.destroy()
            await self._departures.wait()
        finally:
            await self._world.close()

    # -- parts --

    @property
    def twin(self) -> Twin:
        """Return the running twin; raise TwinError when there is none."""
        return self._need_twin()

    @property
    def place(self) -> Place:
        """Return the folder of the universe."""
        return self._place

    @property
    def recorder(self) -> Recorder:
        """Return the universe's own log."""
        return self._recorder

    @property
    def secret_values(self) -> tuple[str, ...]:
        """Return what must never be written down."""
        return tuple(self._secrets.by_name.values())

    def refused_hosts(self) -> frozenset[str]:
        """Return the hosts that services have refused so far."""
        return self._world.decisions.refused_hosts()

    def environment_of(self, user: User) -> Mapping[str, str]:
        """Return the whole environment of a user's commands."""
        return self._environment(user)

    def _environment(self, user: User) -> dict[str, str]:
        return environment(self.profile, user, self._secrets.by_name, self._world.index_url)

    def _provisioner(self) -> Provisioner:
        return Provisioner(self._need_twin(), self.profile.user, self._environment, self._recorder)

    def _need_twin(self) -> Twin:
        if self._twin is None:
            raise TwinError("not_running", "the universe has no twin", "launch it (again)")
        return self._twin

    async def way_in(self) -> Sockets:
        """Return the way into the twin's network as it is now."""
        if self._sockets is None:
            self._sockets = await self._need_twin().sockets()
        return self._sockets

    async def _leave(self) -> None:
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            await self._world.leave(sockets)
            await sockets.close()

    async def _signs(self, wait_ready: Any, once: bool = False) -> list[dict[str, Any]]:
        where = (self._need_twin(), self._environment, self.profile.user, once, await self.way_in())
        return list(await wait_ready(self.profile.readiness, *where))

    async def provenance(self, names: Any) -> Sequence[Any]:
        """Compare installed packages, all or those named, with what was served."""
        from amplifier_digital_twin.provenance import check_provenance

        world, profile = self._world, self.profile
        # Of the host's own system, nothing can be changed in there.
        fixed = ("/usr",) if profile.base.image == "host" else ()
        return await check_provenance(self._need_twin(), profile.user, world.mirror, world.index, names, fixed)
