"""What both tools have in common: how they are run, and how they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_core.models import ToolResult
from amplifier_module_tool_search.child import Ended
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.hidden import Hidden
from amplifier_module_tool_search.notes import Notes
from amplifier_module_tool_search.place import ACTION, Place, Places
from amplifier_module_tool_search.problem import SearchError
from amplifier_module_tool_search.ripgrep import Ripgrep


class SearchTool(ABC):
    """A tool that searches."""

    name: ClassVar[str]
    #: What the policies of a session are asked for.
    action: ClassVar[str] = ACTION

    def __init__(self, coordinator: Any, settings: SearchConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._places = Places(coordinator, settings)
        self._ripgrep = Ripgrep(coordinator)

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Search; what goes wrong is a result that says so. When cancelled, nothing of the search goes on."""
        try:
            return ToolResult(success=True, output=await self._search(input if isinstance(input, Mapping) else {}))
        except SearchError as error:
            failure = {"message": str(error), "code": error.code}
        except OSError as error:
            failure = {"message": f"the search cannot be run: {error}", "code": "search_failed"}
        return ToolResult(success=False, output=failure["message"], error=failure)

    @abstractmethod
    async def _search(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a call asks for; raise SearchError."""

    def _hidden(self, place: Place) -> Hidden | None:
        """Return what the session's rules hide below a place, None for nothing; raise SearchError."""
        return Hidden.of(self._coordinator, self.name, place)

    async def _engine(self, place: Place) -> str | None:
        """Return the path of ripgrep, or None where our own process searches: ripgrep is not there, or not able."""
        if self._settings.engine == "python":
            return None
        found = await self._ripgrep.find()
        if found is None and self._settings.engine == "rg":
            raise SearchError("no_engine", "ripgrep is not installed, and config says engine: rg. Install ripgrep.")
        return found.path if found is not None and (not place.is_folder or found.can_search(place.path)) else None


def check(ended: Ended, notes: Notes, is_empty: bool, seconds: float) -> list[str]:
    """Return what is to be said of a search that was not done to its end; raise SearchError when it brought nothing.

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
    # Where a file was tried, the pattern is one; what is said about it then is ripgrep's log of trying its engines.
    if is_empty and notes.complaints and not notes.has_unreadable:
        # Two engines were tried: what the first says is enough.
        text = "\n".join(notes.complaints).partition("\nregex could not be compiled")[0]
        is_pattern = any(word in text for word in ("regex", "PCRE2", "pattern"))
        raise SearchError("invalid_pattern" if is_pattern else "search_failed", text)
    if ended.code == 2:
        return []
    raise SearchError("search_failed", f"the searching process died (code {ended.code})")
