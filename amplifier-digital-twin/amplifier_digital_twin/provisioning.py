"""What is done once in a new universe: files pushed, commands run, each of them told, timed and bounded."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from amplifier_digital_twin.backends.twin import Finished, Run, Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Command, PushedFile, User
from amplifier_digital_twin.recorder import Recorder

if TYPE_CHECKING:
    from amplifier_digital_twin.embedded.archives import Unpacked

ROOT: Final = User("root", 0)
#: How much of a failed command's output is in the message; the log has more.
_TOLD: Final = 2000
#: How much one `pull` may bring out.
_MAX_PULL: Final = 2 * 1024**3


class Provisioner:
    """Runs commands and pushes files in one twin, as the profile's user unless another is named."""

    def __init__(
        self, twin: Twin, user: User, environment: Callable[[User], Mapping[str, str]], recorder: Recorder
    ) -> None:
        self._twin = twin
        self._user = user
        self._environment = environment
        self._recorder = recorder
        #: Folders that are there: each way inside costs a tenth of a second.
        self._folders = {user.home}

    def user_named(self, name: str | None) -> User:
        """Return the user that a command names; raise TwinError for one that the universe does not have."""
        if name is None or name == self._user.name:
            return self._user
        if name == "root":
            return ROOT
        raise TwinError(
            "user_unknown",
            f"there is no user {name!r} in this universe",
            f"use {self._user.name!r} or 'root', or name another user in the profile",
        )

    async def shell(self, command: Command) -> Finished:
        """Run a command in the user's home and log how it ended; failure is for the caller to judge."""
        user = self.user_named(command.user)
        run = Run(["/bin/sh", "-c", command.run], self._environment(user), user, user.home, timeout=command.timeout)
        finished = await self._twin.run(run)
        self._recorder.event(
            "command",
            run=command.run,
            user=user.name,
            exit_code=finished.exit_code,
            timed_out=finished.is_timed_out,
            seconds=round(finished.seconds, 3),
            stdout=_end(finished.stdout),
            stderr=_end(finished.stderr),
        )
        return finished

    async def commands(self, commands: Sequence[Command]) -> None:
        """Run commands one after the other; raise TwinError at the first that fails."""
        for command in commands:
            self._recorder.progress(f"$ {command.run.strip()}")
            finished = await self.shell(command)
            if finished.is_timed_out:
                raise TwinError(
                    "provision_failed",
                    f"`{command.run.strip()}` was not done after {command.timeout:g} s and was ended",
                    "give it a longer `timeout` in the profile, or find out what it waits for",
                )
            if finished.exit_code != 0:
                text = self._recorder.mask(_end(finished.stderr) or _end(finished.stdout))
                raise TwinError(
                    "provision_failed",
                    f"`{command.run.strip()}` ended with exit code {finished.exit_code}:\n{text}",
                    "`launch --keep` leaves the universe as it is, to look around in it with `exec`",
                )

    async def push(self, file: PushedFile) -> str:
        """Copy a file or folder of the host into the universe; return where it is there.

        Raises TwinError when the source is missing, or is a folder that is not said to be copied as one.
        """
        from amplifier_digital_twin.embedded.archives import Source, pack

        # Only root can give files away.
        is_given_away = any(owner not in (None, self._user.uid) for owner in (file.uid, file.gid))
        user = ROOT if is_given_away else self._user
        target = expanded(file.dest, self._user)
        folder, _, name = target.rpartition("/")
        if not name:
            folder, name = target.rstrip("/"), file.src.name
        if file.create_dirs and folder not in self._folders:
            is_at_home = f"{folder}/".startswith(f"{self._user.home}/")
            await self._make_folder(folder or "/", self._user if is_at_home else user)
        owner = self._user.uid if file.uid is None else file.uid
        group = owner if file.gid is None else file.gid
        source = Source(file.src, name, file.recursive, file.mode, owner, group)
        with tempfile.TemporaryFile() as archive:
            skipped = await asyncio.to_thread(pack, [source], archive)
            archive.seek(0)
            await self._twin.put(archive, user, folder or "/")
        left_out = [entry.name for entry in skipped]
        self._recorder.event("file_pushed", source=str(file.src), target=f"{folder}/{name}", left_out=left_out)
        return f"{folder}/{name}"

    async def pull(self, source: str, destination: Path) -> dict[str, Any]:
        """Copy files of the universe to a folder of the host; links and devices are left out, and named.

        Raises TwinError when there is nothing to bring out, or too much.
        """
        with tempfile.TemporaryFile() as archive:
            await self._twin.get([expanded(source, self._user)], self._user, archive, _MAX_PULL)
            archive.seek(0)
            unpacked = await asyncio.to_thread(_unpacked, archive, destination)
        skipped = [{"name": entry.name, "kind": entry.kind} for entry in unpacked.skipped]
        if not unpacked.files:
            why = f"only {skipped[0]['kind']}s are there" if skipped else "there is no such file inside"
            raise TwinError("file_missing", f"{source}: {why}", "look with `exec ID -- ls -la`")
        return {"pulled": [str(path) for path in unpacked.files], "left_out": skipped}

    async def _make_folder(self, folder: str, user: User) -> None:
        run = Run(["/bin/sh", "-c", f"mkdir -p -- {shlex.quote(folder)}"], self._environment(user), user, timeout=60)
        finished = await self._twin.run(run)
        if finished.exit_code != 0:
            raise TwinError(
                "push_failed",
                f"{folder}: the folder cannot be made inside: {_end(finished.stderr)}",
                f"choose a place that the user {user.name!r} may write to",
            )
        self._folders.add(folder)


def expanded(path: str, user: User) -> str:
    """Return an absolute path inside, where `~` and relative paths start at the user's home."""
    if path == "~" or path.startswith("~/"):
        return user.home + path[1:]
    return path if path.startswith("/") else f"{user.home}/{path}"


def _unpacked(archive: BinaryIO, destination: Path) -> Unpacked:
    from amplifier_digital_twin.embedded.archives import unpack

    return unpack(archive, destination, _MAX_PULL)


def _end(output: bytes) -> str:
    return output[-_TOLD:].decode("utf-8", "replace").strip()
