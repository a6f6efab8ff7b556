"""Keep what was fetched in a file of the session's working directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from amplifier_kit.guard.files.changes import Change, check_writable, exclusive_access
from amplifier_kit.guard.files.place import FileError, Place, shown
from amplifier_kit.guard.files.workspace import WRITE, FileAccess, FileCall, Workspace, Written
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_web.call import Failure


class SavedFile:
    """A file that may be written: found, asked for and held before anything is fetched for it. Close it."""

    def __init__(self, workspace: Workspace, call: FileCall, place: Place, before: os.stat_result | None) -> None:
        self._workspace = workspace
        self._call = call
        self._place = place
        self._before = before

    @property
    def path(self) -> str:
        """Return the true path as text."""
        return shown(self._place.path)

    @property
    def is_page(self) -> bool:
        """Tell whether the name is one of an HTML file."""
        return self._place.path.suffix.lower() in (".html", ".htm", ".xhtml")

    async def write(self, content: bytes) -> list[str]:
        """Write the file at once, or not at all; return warnings, raise Failure."""
        change = Change(self._place, self._before, content)
        written: list[Written] = []

        def work(stop: threading.Event) -> list[str]:
            with exclusive_access:
                return self._workspace.write(self._call, [change], written, stop)

        try:
            return await run_stoppable(work)
        except FileError as error:
            raise Failure(error.code, f"nothing was saved: {error.message}") from error
        finally:
            # Also when the call was cancelled just after the file had changed.
            await self._workspace.announce_written(written)

    def close(self) -> None:
        """Let go of the file's folder."""
        self._place.close()


class FileSaver:
    """Finds the files that the tool may write: those below the working directory."""

    def __init__(self, coordinator: Any, access: FileAccess) -> None:
        self._workspace = Workspace(coordinator, access)

    async def file(self, name: str, tool_name: str, tool_input: Mapping[str, Any]) -> SavedFile:
        """Return the file of a name, which the session allows to be written; raise Failure."""
        call = self._workspace.call(tool_name, WRITE, tool_input)
        try:
            # The session was asked for a fetch, not for a file: it is asked now, whatever the name.
            place = await self._workspace.reach(call, name, must_ask=True)
            try:
                before = await run_stoppable(lambda stop: check_writable(place, self._workspace.settings.writing))
            except BaseException:
                place.close()
                raise
        except FileError as error:
            raise Failure(error.code, error.message) from error
        return SavedFile(self._workspace, call, place, before)
