"""Let a tool reach and change files of its session: judged, asked for where needed, kept as a checkpoint, announced."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_core.events import ARTIFACT_READ, ARTIFACT_WRITE
from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.authorization import authorize
from amplifier_kit.guard.files.changes import Change, apply_changes
from amplifier_kit.guard.files.config import FileAccess
from amplifier_kit.guard.files.errors import FileError, shown
from amplifier_kit.guard.files.roots import Roots
from amplifier_kit.guard.files.threads import in_thread
from amplifier_kit.guard.files.walk import Place, reach
from amplifier_kit.guard.hidden_paths import HidingError, IsHidden, hiding

__all__ = ["READ", "WRITE", "FileCall", "Workspace", "Written"]

logger = logging.getLogger(__name__)

READ: Final = "filesystem.read"
WRITE: Final = "filesystem.write"

#: `@types/node` is a folder, `@bundle:path` a mention.
_MENTION: Final = re.compile(r"@[^/:]+:")


@dataclass(frozen=True)
class FileCall:
    """One call of a tool."""

    tool_name: str
    action: str
    tool_input: Mapping[str, Any]
    tool_call_id: str | None = None


class Written(NamedTuple):
    """A file that was changed; no bytes are left of one that was removed."""

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
        """Return the place that a path or a mention leads to, which the session allows; close it.

        The session is asked when links, a mention or a working directory of this tool's own lead to another file than
        the one that was named, or when `must_ask` says that nobody has been asked about this name. Raises FileError.
        """
        path = self._absolute(name)
        roots, verb = (self.settings.reading, "read") if call.action == READ else (self.settings.writing, "written")
        place = await in_thread(lambda stop: _judged(path, roots, verb, follow=follow))
        try:
            if must_ask or self._means_another(name) or place.path != self._expected(path):
                await self._ask(call, place.path)
        except BaseException:
            place.close()
            raise
        return place

    async def unreadable(self, call: FileCall, path: Path) -> str | None:
        """Return why the session does not allow a call that writes to read the file as well; None when it does.

        Whoever may write a file need not be allowed to see what it holds: ask before anything of it is shown.
        """
        try:
            await self._ask(replace(call, action=READ), path)
        except FileError as error:
            return error.message
        return None

    async def disclosable(self, call: FileCall, error: FileError) -> FileError:
        """Return the error as it may be shown: without the content of a file that must not be read."""
        path = error.disclosed_path
        if path is None or (reason := await self.unreadable(call, path)) is None:
            return error
        what = error.without_content or f"{shown(path)} does not fit this change, and nothing was written"
        return FileError("unreadable", f"{what}. What it holds is not shown: {reason}")

    def hiding(self, tool_name: str, place: Place) -> IsHidden | None:
        """Return what tells of a true path near `place` whether it must not be named; None when nothing is hidden.

        Raises FileError when the session cannot tell, and so does what is returned.
        """
        try:
            is_hidden = hiding(self._coordinator, tool_name, str(place.path))
        except HidingError as error:
            raise FileError("denied", f"nothing is shown: {error}") from error
        if is_hidden is None:
            return None

        def judged(path: str) -> bool:
            try:
                return is_hidden(path)
            except HidingError as error:
                raise FileError("denied", f"nothing is shown: {error}") from error

        return judged

    def write(
        self, call: FileCall, changes: Sequence[Change], written: list[Written], stop: threading.Event
    ) -> list[str]:
        """Keep the files, change all or none, and add to `written` what was changed; return warnings.

        Runs in a thread. Raises FileError, also when a file cannot be kept before it is changed, and Stopped.
        """
        checkpoints = self._capability("session.checkpoint")
        kept: list[Path] = []
        try:
            if checkpoints is not None:
                for change in changes:
                    self._keep(checkpoints, change.place.path, call)
                    kept.append(change.place.path)
            apply_changes(changes, self.settings.writing, stop)
            written.extend(
                Written(change.place.path, None if change.content is None else len(change.content))
                for change in changes
            )
        finally:
            warnings = [text for path in kept if (text := _note_after(checkpoints, path)) is not None]
        return warnings

    async def announce_read(self, path: Path, size: int) -> None:
        """Emit `artifact:read`."""
        await self._coordinator.hooks.emit(ARTIFACT_READ, {"path": shown(path), "bytes": size})

    async def announce_written(self, written: Sequence[Written]) -> None:
        """Emit `artifact:write` for every file that has content now."""
        for one in written:
            if one.bytes is not None:
                await self._coordinator.hooks.emit(ARTIFACT_WRITE, {"path": shown(one.path), "bytes": one.bytes})

    def _absolute(self, name: str) -> str:
        """Return the absolute path that a name means, links not followed."""
        if not name or "\0" in name:
            raise FileError("invalid_path", f"{name!r} is no path")
        if _is_mention(name):
            return self._mentioned(name)
        if name == "~" or name.startswith("~/"):
            name = os.path.expanduser(name)
        return os.path.join(self.settings.working_dir, name)

    def _mentioned(self, name: str) -> str:
        resolver = self._capability("mention_resolver")
        if resolver is None:
            raise FileError("no_mention_resolver", f"{name} cannot be resolved here; give a path")
        try:
            found = plain_result(resolver.resolve(name))
        except Exception as error:
            raise FileError("mention_unresolved", f"{name} cannot be resolved: {error}") from error
        if found is None:
            raise FileError("not_found", f"{name} leads to no file that may be used")
        return os.path.join(self.settings.working_dir, os.fspath(found))

    def _means_another(self, name: str) -> bool:
        """Tell whether a name means another file here than it does to the policies of the session."""
        return _is_mention(name) or (self._has_own_dir and not name.startswith(("/", "~/")))

    def _expected(self, path: str) -> Path:
        """Return the true path of a name without links of its own; those above the working directory do not count."""
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

    def _keep(self, checkpoints: Any, path: Path, call: FileCall) -> None:
        try:
            # The path is resolved: if a link is put into it now, its target must not be kept.
            made = checkpoints.before_write(path, tool=call.tool_name, tool_call_id=call.tool_call_id, follow=False)
            plain_result(made)
        except Exception as error:
            raise FileError(
                "checkpoint_failed", f"nothing was written, because {shown(path)} could not be kept first: {error}"
            ) from error

    def _capability(self, name: str) -> Any:
        ask = getattr(self._coordinator, "get_capability", None)
        return ask(name) if callable(ask) else None


def _judged(path: str, roots: Roots, verb: str, *, follow: bool) -> Place:
    place = reach(path, follow=follow)
    try:
        roots.check(place, verb)
    except BaseException:
        place.close()
        raise
    return place


def _is_mention(name: str) -> bool:
    return _MENTION.match(name) is not None


def _note_after(checkpoints: Any, path: Path) -> str | None:
    try:
        plain_result(checkpoints.after_write(path))
    except Exception as error:
        logger.warning("The checkpoint of %s could not be completed: %s", shown(path), error)
        return f"the checkpoint of {shown(path)} could not be completed: {error}"
    return None
