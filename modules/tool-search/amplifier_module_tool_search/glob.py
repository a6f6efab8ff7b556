"""Find files by name: what the tool `glob` does when it is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from amplifier_module_tool_search.answer import MOST_CHARACTERS, TOO_MUCH
from amplifier_module_tool_search.calls import GlobCall
from amplifier_module_tool_search.child import run
from amplifier_module_tool_search.engine import glob_command
from amplifier_module_tool_search.errors import SearchError
from amplifier_module_tool_search.notes import Notes
from amplifier_module_tool_search.place import Place, readable
from amplifier_module_tool_search.progress import report_progress
from amplifier_module_tool_search.search_base import Search, check

#: Seconds that the listing process gets to write its findings when its time is up.
_LEEWAY: Final = 2.0


class GlobSearch(Search):
    """Find files whose paths match a pattern."""

    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        call = GlobCall.read(given, self._settings.glob)
        place = await self._places.open(self.name, given, call.path, is_seen=call.is_path_shown)
        try:
            if not place.is_folder:
                raise SearchError("not_a_folder", f"{readable(place.path)} is a file; glob looks in folders")
            return await self._listed(call, place, given)
        finally:
            place.close()

    async def _listed(self, call: GlobCall, place: Place, given: Mapping[str, Any]) -> dict[str, Any]:
        settings = self._settings.glob
        said = bytearray()
        hidden = self._hidden(place)
        notes = Notes()

        def hear(data: bytes) -> bool:
            said.extend(data)
            return False

        with glob_command(call, place, settings, await self._engine(place), hidden) as command:
            async with report_progress(self._coordinator, self.name, given, lambda: f"listing {readable(place.path)}"):
                ended = await run(command, settings.timeout + _LEEWAY, hear, notes.take)
        notes.close()
        if hidden is not None:
            hidden.check()
        found = json.loads(said) if said else {"matches": []}
        texts = check(ended, notes, not found["matches"], settings.timeout)
        if not said:
            raise SearchError("search_failed", "the listing process returned nothing")
        if found["is_late"]:
            if not found["matches"]:
                raise SearchError("timeout", f"stopped after {settings.timeout:g} s, before everything was looked at")
            texts.append("stopped because the time was up: there may be more, and newer ones")
        texts += [] if hidden is None else hidden.texts()
        return _result(call, place, found, [*texts, *notes.texts(0, is_empty=False)])


def _result(call: GlobCall, place: Place, found: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    room = MOST_CHARACTERS
    for path, kind, size in found["matches"]:
        shown = place.shown(path)
        room -= len(shown) + 40
        if room < 0:
            notes.append(TOO_MUCH)
            break
        matches.append({"path": shown, "type": kind, "size": size})
    result: dict[str, Any] = {
        "pattern": call.pattern,
        "base_path": readable(place.path),
        "total_files": found["total"],
        "count": len(matches),
        "matches": matches,
    }
    if found["is_late"] or len(matches) < found["total"]:
        result["results_capped"] = True
    if notes:
        result["notes"] = notes
    return result
