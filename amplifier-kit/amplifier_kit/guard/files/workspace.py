"""Give a tool access to files of its session: checked, approved where needed, kept in a checkpoint, announced."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field

from amplifier_core.events import ARTIFACT_READ, ARTIFACT_WRITE
from amplifier_kit.awaitable import plain_result
from amplifier_kit.config import Config, Paths, PathText
from amplifier_kit.guard.authorization import HidingError, IsHidden, authorize, hiding
from amplifier_kit.guard.files.changes import Change, apply_changes
from amplifier_kit.guard.files.place import FileError, Place, Roots, reach, shown
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct
from amplifier_kit.threads import run_stoppable

logger = logging.getLogger(__name__)

READ: Final = "filesystem.read"
WRITE: Final = "filesystem.write"

#: `@types/node` is a folder, `@bundle:path` a mention.
_MENTION: Final = re.compile(r"@[^/:]+:")


class FileConfig(Config):
    """The config keys that all tools on files share."""

    working_dir: PathText | None = Field(
        None, description="Where relative paths begin; null for the session's working directory."
    )
    allowed_read_paths: Paths | None = Field(None, description="Where files may be read; null for everywhere.")
    allowed_write_paths: Paths | None = Field(
        None, description="Where files may be written; null for the working directory."
    )
    denied_write_paths: Paths | None = Field(None, description="Where files must not be written, whatever is allowed.")


class FileAccess(FrozenStruct):
    """What a config means in a session, as absolute paths."""

    working_dir: Path
    #: Where relative paths begin for everything else in the session, its policies among them.
    session_dir: Path
    reading: Roots
    writing: Roots

    @classmethod
    def of(cls, config: FileConfig, coordinator: Any) -> Self:
        """Resolve a config; raise ValueError when the session's working directory is not a path."""
        given = _capability(coordinator, "session.working_dir")
        session_dir = Path.cwd()
        if given is not None:
            if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
                raise ValueError(f"the capability session.working_dir must be a path, got {given!r}")
            session_dir = _absolute(given, session_dir)
        base = session_dir if config.working_dir is None else _absolute(config.working_dir, session_dir)
        write = ["."] if config.allowed_write_paths is None else config.allowed_write_paths
        return cls(
            working_dir=base,
            session_dir=session_dir,
            reading=Roots.resolved(config.allowed_read_paths, (), base),
            writing=Roots.resolved(write, config.denied_write_paths or (), base),
        )


class FileCall(NamedTuple):
    """One call of a tool."""

    tool_name: str
    action: str
    tool_input: Mapping[str, Any]
    tool_call_id: str | None = None


class Written(FrozenStruct):
    """A file that was changed, and its size; None when it was removed."""

    path: Path
    bytes: int | None


class Workspace:
    """The files that a session's tool may work on."""

    def __init__(self, coordinator: Any, settings: FileAccess) -> None:
        self._coordinator = coordinator
        self.settings = settings
        self._real_dir = Path(os.path.realpath(settings.working_dir))
        self._has_own_dir = self._real_dir != Path(os.path.realpath(settings.session_dir))

    def call(self, tool_name: str, action: str, tool_input: Mapping[str, Any]) -> FileCall:
        """Return the call that the running task executes, with its id if the orchestrator has noted it."""
        noted = getattr(self._coordinator, "_tool_dispatch_contexts", None)
        found = noted.get(asyncio.current_task()) if isinstance(noted, dict) else None
        call_id = found.get("tool_call_id") if isinstance(found, dict) else None
        return FileCall(tool_name, action, tool_input, call_id if isinstance(call_id, str) else None)

    async def reach(self, call: FileCall, name: str, *, follow: bool = True, must_ask: bool = False) -> Place:
        """Return the place that a path or a mention leads to, if the session allows it; close it.

        The session is asked when links, a mention or a working directory of this tool's own lead to another file than
        the one that was named, or when `must_ask` says that this name was not authorized with the call. Raises
        FileError.
        """
        path = self._absolute(name)
        roots, verb = (self.settings.reading, "read") if call.action == READ else (self.settings.writing, "written")

        def reach_allowed(stop: threading.Event) -> Place:
            place = reach(path, follow=follow)
            try:
                roots.check(place, verb)
            except BaseException:
                place.close()
                raise
            return place

        place = await run_stoppable(reach_allowed)
        try:
            if must_ask or self._differs_for_policies(name) or place.path != self._expected(path):
                await self._ask(call, place.path)
        except BaseException:
            place.close()
            raise
        return place

    async def unreadable(self, call: FileCall, path: Path) -> str | None:
        """Return why the session does not allow a call that writes to read the file as well; None when it does.

        Permission to write a file does not include permission to see it: ask before any of its content is shown.
        """
        try:
            await self._ask(call._replace(action=READ), path)
        except FileError as error:
            return error.message
        return None

    async def disclosable(self, call: FileCall, error: FileError) -> FileError:
        """Return the error as it may be shown: without the content of a file that must not be read."""
        path = error.disclosed_path
        if path is None or (reason := await self.unreadable(call, path)) is None:
            return error
        what = error.without_content or f"{shown(path)} does not fit this change, and nothing was written"
        return FileError("unreadable", f"{what}. Its content is not shown: {reason}")

    def hiding(self, tool_name: str, place: Place) -> IsHidden | None:
        """Return the check whether a real path near `place` must not be named; None when nothing is hidden.

        Raises FileError when the session cannot decide, and so does the check.
        """
        with _hiding_errors():
            is_hidden = hiding(self._coordinator, tool_name, str(place.path))
        if is_hidden is None:
            return None

        def check(path: str) -> bool:
            with _hiding_errors():
                return is_hidden(path)

        return check

    def write(
        self, call: FileCall, changes: Sequence[Change], written: list[Written], stop: threading.Event
    ) -> list[str]:
        """Checkpoint the files, change all or none, and add the changed ones to `written`; return warnings.

        Runs in a thread. Raises FileError, also when a file cannot be kept before it is changed, and Stopped.
        """
        checkpoints = _capability(self._coordinator, "session.checkpoint")
        kept: list[Path] = []
        warnings: list[str] = []
        try:
            if checkpoints is not None:
                for change in changes:
                    _keep(checkpoints, change.place.path, call)
                    kept.append(change.place.path)
            apply_changes(changes, self.settings.writing, stop)
            written.extend(
                Written(change.place.path, None if change.content is None else len(change.content))
                for change in changes
            )
        finally:
            for path in kept:
                try:
                    plain_result(checkpoints.after_write(path))
                except Exception as error:
                    warning = f"the checkpoint of {shown(path)} could not be completed: {error}"
                    logger.warning("%s", warning)
                    warnings.append(warning)
        return warnings

    async def announce_read(self, path: Path, size: int) -> None:
        await self._coordinator.hooks.emit(ARTIFACT_READ, {"path": shown(path), "bytes": size})

    async def announce_written(self, written: Sequence[Written]) -> None:
        """Emit `artifact:write` for every file that has content now."""
        for one in written:
            if one.bytes is not None:
                await self._coordinator.hooks.emit(ARTIFACT_WRITE, {"path": shown(one.path), "bytes": one.bytes})

    def _absolute(self, name: str) -> str:
        """Return the absolute path for a name, links not followed."""
        if not name or "\0" in name:
            raise FileError("invalid_path", f"{name!r} is not a path")
        if _MENTION.match(name):
            return self._resolve_mention(name)
        if name == "~" or name.startswith("~/"):
            name = os.path.expanduser(name)
        return os.path.join(self.settings.working_dir, name)

    def _resolve_mention(self, name: str) -> str:
        resolver = _capability(self._coordinator, "mention_resolver")
        if resolver is None:
            raise FileError("no_mention_resolver", f"{name} cannot be resolved here; give a path")
        try:
            found = plain_result(resolver.resolve(name))
        except Exception as error:
            raise FileError("mention_unresolved", f"{name} cannot be resolved: {error}") from error
        if found is None:
            raise FileError("not_found", f"{name} leads to no file that may be used")
        return os.path.join(self.settings.working_dir, os.fspath(found))

    def _differs_for_policies(self, name: str) -> bool:
        """Return whether a name means another file here than it does to the policies of the session."""
        return _MENTION.match(name) is not None or (self._has_own_dir and not name.startswith(("/", "~/")))

    def _expected(self, path: str) -> Path:
        """Return the real path of a name that has no links; those above the working directory do not count."""
        plain = Path(os.path.normpath(path))
        if plain.is_relative_to(self.settings.working_dir):
            return self._real_dir / plain.relative_to(self.settings.working_dir)
        return plain

    async def _ask(self, call: FileCall, path: Path) -> None:
        """Ask the session about the file itself; raise FileError when it does not allow it."""
        details: dict[str, Any] = {"tool_name": call.tool_name, "tool_input": dict(call.tool_input)}
        if call.tool_call_id is not None:
            details["tool_call_id"] = call.tool_call_id
        permission = await authorize(self._coordinator, call.action, {**details, "path": shown(path)})
        if not permission.granted:
            raise FileError("denied", f"{shown(path)} is not allowed: {permission.reason}")


def _keep(checkpoints: Any, path: Path, call: FileCall) -> None:
    try:
        # The path is resolved: if a link is put into it now, its target must not be kept.
        plain_result(checkpoints.before_write(path, tool=call.tool_name, tool_call_id=call.tool_call_id, follow=False))
    except Exception as error:
        raise FileError(
            "checkpoint_failed", f"nothing was written, because {shown(path)} could not be kept first: {error}"
        ) from error


@contextmanager
def _hiding_errors() -> Iterator[None]:
    try:
        yield
    except HidingError as error:
        raise FileError("denied", f"nothing is shown: {error}") from error


def _capability(coordinator: Any, name: str) -> Any:
    ask = getattr(coordinator, "get_capability", None)
    return ask(name) if callable(ask) else None


def _absolute(path: str | Path, base: Path) -> Path:
    return Path(os.path.abspath(base / Path(path).expanduser()))
