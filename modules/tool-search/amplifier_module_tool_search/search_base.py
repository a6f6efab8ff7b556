"""What both searches share: the place, the engine, and what a search that did not finish means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from amplifier_module_tool_search.child import Ended
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.errors import SearchError
from amplifier_module_tool_search.hidden import Hidden
from amplifier_module_tool_search.notes import Notes
from amplifier_module_tool_search.place import Place, Places
from amplifier_module_tool_search.ripgrep import Ripgrep


class Search(ABC):
    """One of the tools at work; `name` is that of the tool."""

    def __init__(self, coordinator: Any, settings: SearchConfig, name: str) -> None:
        self.name = name
        self._coordinator = coordinator
        self._settings = settings
        self._places = Places(coordinator, settings)
        self._ripgrep = Ripgrep(coordinator)

    @abstractmethod
    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a call; raise SearchError."""

    def _hidden(self, place: Place) -> Hidden | None:
        """Return the paths that the session's rules hide below a place, None for none; raise SearchError."""
        return Hidden.of(self._coordinator, self.name, place)

    async def _engine(self, place: Place) -> str | None:
        """Return the path of ripgrep, None when it is missing or unsuitable, so that our own process searches."""
        if self._settings.engine == "python":
            return None
        found = await self._ripgrep.find()
        if found is None and self._settings.engine == "rg":
            raise SearchError("no_engine", "ripgrep is not installed, and config says engine: rg. Install ripgrep.")
        return found.path if found is not None and (not place.is_folder or found.can_search(place.path)) else None


def check(ended: Ended, notes: Notes, is_empty: bool, seconds: float) -> list[str]:
    """Return notes about a search that did not finish; raise SearchError when it found nothing.

    Finding nothing in a part of the files is not the same as finding nothing.
    """
    if ended.how == "late":
        text = f"stopped after {seconds:g} s, before everything was searched: narrow the search"
        if is_empty:
            raise SearchError("timeout", text)
        return [text]
    if ended.how == "enough":
        return ["stopped because there is too much to read: narrow the search"]
    if ended.code in (0, 1):
        return []
    # When a file was searched, the pattern is valid; messages about it are then ripgrep's log of trying its engines.
    if is_empty and notes.complaints and not notes.has_unreadable:
        # Two engines were tried: the message of the first is enough.
        text = "\n".join(notes.complaints).partition("\nregex could not be compiled")[0]
        is_pattern = any(word in text for word in ("regex", "PCRE2", "pattern"))
        raise SearchError("invalid_pattern" if is_pattern else "search_failed", text)
    if ended.code == 2:
        return []
    raise SearchError("search_failed", f"the searching process ended with code {ended.code}")
