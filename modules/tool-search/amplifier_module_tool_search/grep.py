"""Search the contents of files: what the tool `grep` does when it is called."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from amplifier_module_tool_search.answer import Answer
from amplifier_module_tool_search.calls import GrepCall
from amplifier_module_tool_search.child import Ended, run
from amplifier_module_tool_search.engine import (
    grep_command,
    hidden_command,
    large_command,
    listing_command,
    returns_lines,
)
from amplifier_module_tool_search.errors import SearchError
from amplifier_module_tool_search.findings import Counted, Findings, FoundCounts, FoundFiles, FoundLines
from amplifier_module_tool_search.globs import name_regex
from amplifier_module_tool_search.hidden import Hidden
from amplifier_module_tool_search.notes import Notes
from amplifier_module_tool_search.place import Place
from amplifier_module_tool_search.progress import report_progress
from amplifier_module_tool_search.search_base import Search, check


class GrepSearch(Search):
    """Find files and lines that match a regular expression."""

    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        call = GrepCall.read(given, self._settings.grep)
        place = await self._places.open(self.name, given, call.path)
        try:
            return await self._searched(call, place, given)
        finally:
            place.close()

    async def _searched(self, call: GrepCall, place: Place, given: Mapping[str, Any]) -> dict[str, Any]:
        settings = self._settings.grep
        hidden = self._hidden(place)
        found = _findings(call, place, hidden)
        notes = Notes(None if hidden is None else hidden.hides)
        answer = Answer(call, place)
        if place.is_folder or _is_searchable(call, place, settings.max_file_size, notes):
            ended = await self._run(call, place, found, notes, given, hidden)
            if isinstance(found, FoundLines):
                found.close()
                if not place.is_folder and found.has_binary:
                    answer.notes.append("the file is binary and was not searched")
            said = check(ended, notes, not found.files, settings.timeout)
            answer.is_capped = False
        else:
            ended, said = Ended("ended", 0), []
        # Off the loop: there may be very much of it.
        result = await asyncio.to_thread(answer.make, found)
        if answer.is_capped or ended.how != "ended":
            result["results_capped"] = True
        said = [*said, *answer.notes, *([] if hidden is None else hidden.texts())]
        if said := [*said, *notes.texts(settings.max_file_size, is_empty=not found.files)]:
            result["notes"] = said
        return result

    async def _run(
        self,
        call: GrepCall,
        place: Place,
        found: Findings,
        notes: Notes,
        given: Mapping[str, Any],
        hidden: Hidden | None,
    ) -> Ended:
        settings = self._settings.grep
        ripgrep = await self._engine(place)
        async with report_progress(
            self._coordinator, self.name, given, lambda: f"{len(found.files)} files match so far"
        ):
            loop = asyncio.get_running_loop()
            deadline = loop.time() + settings.timeout
            if ripgrep is not None and hidden is not None:
                walked = await self._look_for_hidden(call, place, hidden)
                if walked.how != "ended":
                    return walked
            with grep_command(call, place, settings, ripgrep, hidden) as command:
                ended = await run(command, deadline - loop.time(), found.take, notes.take)
            notes.close()
            if hidden is not None:
                hidden.check()
            is_done = ended.code in (0, 1) or (ended.code == 2 and notes.has_unreadable)
            if ripgrep is None or not place.is_folder or found.files or not is_done:
                return ended
            # "Nothing found" must not include files that were not searched; ripgrep does not report those.
            if await self._is_all_searched(found.searched(), call, place, ripgrep, hidden, deadline):
                return ended
            with large_command(call, place, settings, hidden) as command:
                listed_large = await run(command, deadline - loop.time(), lambda data: False, notes.take)
            notes.close()
            if hidden is not None:
                hidden.check()
            return ended if listed_large.code == 0 else listed_large

    async def _is_all_searched(
        self, searched: int | None, call: GrepCall, place: Place, ripgrep: str, hidden: Hidden | None, deadline: float
    ) -> bool:
        """Return whether ripgrep lists as many files as it has searched: a list takes less time than a walk."""
        names = Counted()
        with listing_command(call, place, self._settings.grep, ripgrep, hidden) as command:
            seconds = deadline - asyncio.get_running_loop().time()
            ended = await run(command, seconds, names.take, lambda data: False)
        return ended.code in (0, 1) and names.count == searched

    async def _look_for_hidden(self, call: GrepCall, place: Place, hidden: Hidden) -> Ended:
        """Find the hidden paths for ripgrep, which cannot ask while it walks; raise SearchError when that fails."""
        trouble = Notes()
        with hidden_command(call, place, self._settings.grep, hidden) as command:
            ended = await run(command, self._settings.grep.timeout, lambda data: False, trouble.take)
        trouble.close()
        hidden.check()
        if ended.how == "ended" and ended.code != 0:
            raise SearchError(
                "search_failed", "\n".join(trouble.complaints) or f"the walk ended with code {ended.code}"
            )
        return ended


def _findings(call: GrepCall, place: Place, hidden: Hidden | None) -> Findings:
    fits = _shown(_fits(call), hidden) if place.is_folder else None
    if returns_lines(call, place):
        return FoundLines(fits, single=not place.is_folder)
    return FoundCounts(fits) if call.mode == "count" else FoundFiles(fits)


def _fits(call: GrepCall) -> Callable[[str], bool] | None:
    """Return the check of paths against the glob, which ripgrep gets only in part; None without a glob."""
    if call.glob is None:
        return None
    fullmatch = re.compile(call.glob.regex, re.DOTALL).fullmatch
    is_wanted = not call.is_glob_negated
    return lambda path: (fullmatch(path) is not None) is is_wanted


def _shown(fits: Callable[[str], bool] | None, hidden: Hidden | None) -> Callable[[str], bool] | None:
    """Return the check whether a path is selected and may be shown."""
    if hidden is None:
        return fits
    return lambda path: (fits is None or fits(path)) and not hidden.hides(path)


def _is_searchable(call: GrepCall, place: Place, most: int, notes: Notes) -> bool:
    """Return whether the named file fits the type and glob of the call and is not too large."""
    name = os.path.basename(place.path)
    if call.names and not any(re.fullmatch(name_regex(pattern), name) for pattern in call.names):
        return False
    fits = _fits(call)
    if fits is not None and not fits(name):
        return False
    size = os.stat(place.entrance).st_size
    if size > most:
        notes.take(f"ignoring {place.shown('')}: {size} bytes\n".encode("utf-8", "replace"))
    return size <= most
