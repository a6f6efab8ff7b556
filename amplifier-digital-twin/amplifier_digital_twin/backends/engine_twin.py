"""A twin that is a container: started, entered, kept as an image, started again."""

from __future__ import annotations

import asyncio
import io
import shlex
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from amplifier_digital_twin.backends.engine import check_tag, container_name
from amplifier_digital_twin.backends.engine_exec import EngineExec
from amplifier_digital_twin.backends.twin import Finished, Run, Sink, Sockets, TwinSpec
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

if TYPE_CHECKING:
    from amplifier_digital_twin.backends.engine import Engine
    from amplifier_digital_twin.embedded.entry import Entry
    from amplifier_digital_twin.embedded.sockets import NamespaceSockets

_ROOT: Final = User("root", 0)
_TOOLS: Final = "/opt/twin/bin"
_PATH: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
#: Files that engines mount into every container: they can be written, not replaced.
_MOUNTED: Final = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"})
#: Makes an account without any program: images often lack useradd. One of the same name or number is in the way.
_ACCOUNT: Final = """set -e
umask 022
name=$1 uid=$2 home=$3 has_user= has_group=
while IFS=: read -r n _ u _; do
  if [ "$n" = "$name" ]; then
    [ "$u" = "$uid" ] || { echo "the image has a user $name of its own, with id $u" >&2; exit 3; }
    has_user=1
  fi
done < /etc/passwd
while IFS=: read -r n _; do if [ "$n" = "$name" ]; then has_group=1; fi; done < /etc/group
[ -n "$has_user" ] || echo "$name:x:$uid:$uid::$home:/bin/sh" >> /etc/passwd
[ -n "$has_group" ] || echo "$name:x:$uid:" >> /etc/group
if [ ! -d "$home" ]; then mkdir -p "$home"; chown "$uid:$uid" "$home"; chmod 700 "$home"; fi
"""


class EngineTwin:
    """A running container and the way into it."""

    def __init__(self, engine: Engine, spec: TwinSpec, base: str) -> None:
        self._engine = engine
        self._spec = spec
        self._base = base
        self._name = container_name(spec.id)
        self._exec = EngineExec(engine, self._name)
        self._notes: list[str] = []
        self._pid: int | None = None
        self._sockets: list[NamespaceSockets] = []
        self._is_destroyed = False

    @property
    def is_running(self) -> bool:
        """Tell whether its first process is there."""
        return self._pid is not None and Path(f"/proc/{self._pid}").exists()

    @property
    def notes(self) -> Sequence[str]:
        """Return what is weaker than asked for, in words."""
        return tuple(self._notes)

    async def start(self, image: str) -> None:
        """Start it from an image; raise TwinError, with no container left, when that fails."""
        try:
            self._notes = list(await self._engine.start(self._spec, image))
            self._pid = await self._engine.pid(self._name)
            if self._pid is None:
                raise TwinError(
                    "engine_failed",
                    f"{self._name} ended as soon as it was started",
                    "the image needs /bin/sh and sleep",
                )
            self._exec.unwanted = await self._engine.known_variables(self._name)
            await self._make_account()
            await self._write_files()
        except BaseException:
            await asyncio.shield(self._remove())
            raise

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run a command to its end; at its timeout, or when the caller is cancelled, all its processes end."""
        return await self._exec.run(run, sink)

    async def put(self, archive: BinaryIO, user: User, folder: str) -> None:
        """Unpack a tar stream into a folder inside, as that user; numeric owners count only for root."""
        async with self._entry() as entry:
            await entry.put(archive, user, folder)

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Write a tar stream of files inside (regular files and folders; globs allowed) to `archive`."""
        async with self._entry() as entry:
            await entry.get(paths, user, archive, max_bytes)

    async def sockets(self) -> Sockets:
        """Return the way into the twin's own network."""
        from amplifier_digital_twin.embedded.sockets import NamespaceSockets

        found = NamespaceSockets(self._running())
        self._sockets.append(found)
        return found

    async def snapshot(self, name: str, cache: bool = False) -> None:
        """Keep the file system as it is under a name: of this universe, or shared as a provisioned layer.

        The latter is the start of this twin from now on, and everything that runs inside ends, as in `reset`.
        """
        self._running()
        check_tag(name)
        image = self._engine.layer_image(name) if cache else self._engine.snapshot_image(self._spec.id, name)
        await self._engine.commit(self._name, image)
        if cache:
            self._base = image
            await self._remove()
            await self.start(image)

    async def reset(self, name: str | None = None) -> None:
        """Go back to a snapshot, or to the start; everything that runs inside ends."""
        if self._is_destroyed:
            raise TwinError("twin_gone", f"{self._name} was destroyed", "launch the universe again")
        if name is not None:
            image = self._engine.snapshot_image(self._spec.id, check_tag(name))
        else:
            image = self._base if self._spec.layer is None else self._engine.layer_image(self._spec.layer)
        if not await self._engine.has_image(image):
            raise TwinError("snapshot_missing", f"there is no snapshot {name!r}", "make one by `snapshot` first")
        await self._remove()
        await self.start(image)

    async def destroy(self) -> None:
        """End everything and remove every trace; a second time does nothing."""
        await self._remove()
        await self._engine.remove_images(self._spec.id)
        self._is_destroyed = True

    async def _remove(self) -> None:
        for sockets in self._sockets:
            await sockets.close()
        self._sockets.clear()
        await self._engine.remove_container(self._name, self._spec.id)
        self._pid = None

    def _running(self) -> int:
        if self._pid is None or not self.is_running:
            raise TwinError("twin_gone", f"{self._name} does not run", "reset or destroy the universe")
        return self._pid

    @asynccontextmanager
    async def _entry(self) -> AsyncIterator[Entry]:
        from amplifier_digital_twin.embedded.entry import Entry

        entry = Entry(self._running())
        try:
            yield entry
        finally:
            await entry.close()

    async def _as_root(self, script: str, *words: str, stdin: bytes = b"") -> None:
        argv = ["/bin/sh", "-c", script, "sh", *words]
        finished = await self._exec.run(Run(argv, _PATH, _ROOT, stdin=stdin, timeout=120))
        if finished.exit_code != 0:
            reason = finished.stderr.decode("utf-8", "replace").strip()[-400:] or f"exit {finished.exit_code}"
            raise TwinError(
                "engine_failed", f"{self._name} could not be prepared: {reason}", "choose another base, or another user"
            )

    async def _make_account(self) -> None:
        user = self._spec.user
        if user.uid != 0:
            await self._as_root(_ACCOUNT, user.name, str(user.uid), user.home)

    async def _write_files(self) -> None:
        """Write the files of every start, and the host's programs that the profile names."""
        files = self._spec.files
        mounted = [path for path in files if path in _MOUNTED]
        for path in mounted:
            await self._as_root(f"cat > {shlex.quote(path)}", stdin=files[path][0])
        plain = {path: entry for path, entry in files.items() if path not in _MOUNTED}
        if plain or self._spec.tools:
            archive = await asyncio.to_thread(_packed, plain, self._spec.tools)
            async with self._entry() as entry:
                await entry.put(archive, _ROOT, "/")


def _packed(files: Mapping[str, tuple[bytes, int]], tools: Mapping[str, Path]) -> BinaryIO:
    """Return a tar archive of root's files at their absolute paths; raise TwinError for a tool that is not there."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        for name, source in tools.items():
            try:
                with open(source, "rb") as file:
                    entry = archive.gettarinfo(fileobj=file, arcname=f"{_TOOLS}/{name}".lstrip("/"))
                    entry.uid = entry.gid = 0
                    entry.uname = entry.gname = ""
                    entry.type, entry.mode = tarfile.REGTYPE, 0o755
                    archive.addfile(entry, file)
            except OSError as error:
                raise TwinError(
                    "tool_missing", f"{source}: cannot be read: {error.strerror}", "correct `base.tools`"
                ) from error
    out.seek(0)
    return out
