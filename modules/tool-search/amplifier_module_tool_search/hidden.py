"""Keep paths that the session's rules hide out of a search."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from amplifier_kit.guard.authorization import HiddenCheck, HidingError, hiding
from amplifier_module_tool_search.calls import SearchError
from amplifier_module_tool_search.place import Place


class Hidden:
    """The paths below a folder that must not be shown; everything in a hidden folder is hidden."""

    def __init__(self, is_hidden: HiddenCheck, top: str) -> None:
        self._is_hidden = is_hidden
        self._top = top
        #: By folder: the outermost hidden folder on the way there; empty for none.
        self._folders = {"": ""}
        #: The hidden files and outermost hidden folders that `remove` has met, below the top.
        self.met: dict[str, None] = {}

    @classmethod
    def find(cls, coordinator: Any, tool: str, place: Place) -> Hidden | None:
        """Return what is hidden below a place; None when there are no rules.

        A file that was named was decided on with the call. Raises SearchError when the session cannot tell.
        """
        if not place.is_folder:
            return None
        try:
            is_hidden = hiding(coordinator, tool, place.path)
        except HidingError as error:
            raise _unknown(error) from error
        return None if is_hidden is None else cls(is_hidden, place.path)

    def hides(self, path: str) -> bool:
        """Return whether a path below the top is hidden, or in a hidden folder; raise SearchError."""
        return bool(self._hidden_part(path))

    def remove(self, paths: Collection[str]) -> list[str]:
        """Return the paths that are not hidden, and remember what hides the others; raise SearchError."""
        try:
            if not self._is_hidden.may_hide("\0".join([self._top, *paths])):
                return list(paths)
        except HidingError as error:
            raise _unknown(error) from error
        shown = []
        for path in paths:
            if hidden := self._hidden_part(path.rstrip("/")):
                self.met[hidden] = None
            else:
                shown.append(path)
        return shown

    def notes(self) -> list[str]:
        """Return how much was left out, in words. The number depends on neither names nor contents of it."""
        if not self.met:
            return []
        count = len(self.met)
        what = "1 file or folder is" if count == 1 else f"{count:,} files and folders are"
        return [f"{what} left out because rules restrict {'it' if count == 1 else 'them'}"]

    def _hidden_part(self, path: str) -> str:
        """Return the path, or the outermost folder on the way to it, that is hidden; empty for none."""
        folder, _, _ = path.rpartition("/")
        if folder not in self._folders:
            ends = [end for end, character in enumerate(folder) if character == "/"]
            above = (folder[:end] for end in (*ends, len(folder)))
            self._folders[folder] = next((each for each in above if self._check(each)), "")
        return self._folders[folder] or (path if self._check(path) else "")

    def _check(self, path: str) -> bool:
        try:
            return self._is_hidden(os.path.join(self._top, path))
        except HidingError as error:
            raise _unknown(error) from error


def _unknown(error: Exception) -> SearchError:
    return SearchError("denied", f"nothing is shown: {error}")
