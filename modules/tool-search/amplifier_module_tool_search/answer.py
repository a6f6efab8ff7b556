"""Make the result of a grep from what was found: the requested part, in order and of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from amplifier_module_tool_search.calls import GrepCall
from amplifier_module_tool_search.output import Entry, Output, count_entries, entries
from amplifier_module_tool_search.place import Place

#: The most characters of an answer, and of a line in it.
MAX_CHARACTERS: Final = 256 * 1024
MAX_LINE: Final = 2000
TOO_MUCH: Final = f"the answer would be longer than {MAX_CHARACTERS:,} characters: use offset, or narrow the search"


class Answer:
    """The result of one call."""

    def __init__(self, call: GrepCall, place: Place) -> None:
        self._call = call
        self._place = place
        self._room = MAX_CHARACTERS
        #: Whether entries are left out at the end.
        self.is_capped = False
        self.notes: list[str] = []

    def make(self, found: Output) -> dict[str, Any]:
        """Return the result, without notes about the search itself."""
        mode = self._call.mode
        fields = {"content": self._lines, "count": self._counts}.get(mode, self._files)(found)
        return {"pattern": self._call.pattern, "output_mode": mode, **fields}

    def _files(self, found: Output) -> dict[str, Any]:
        files = []
        for number, (path, _) in enumerate(found.in_order()):
            if self._is_wanted(number) and self._fits(shown := self._place.shown(path)):
                files.append(shown)
        return {"total_matches": len(found.files), "matches_count": len(files), "files": files}

    def _counts(self, found: Output) -> dict[str, Any]:
        counts: dict[str, int] = {}
        total = 0
        for number, (path, value) in enumerate(found.in_order()):
            count = value if isinstance(value, int) else count_entries(value, is_multiline=self._call.multiline)[1]
            total += count
            if self._is_wanted(number) and self._fits(shown := self._place.shown(path)):
                counts[shown] = count
        return {"total_matches": total, "matches_count": len(counts), "counts": counts}

    def _lines(self, found: Output) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        number = total = matches = 0
        for path, lines in found.in_order():
            count, count_of_matches = count_entries(lines, is_multiline=self._call.multiline)
            total += count_of_matches
            # Parsing lines takes time, and most of very many are never shown.
            if not self.is_capped and self._has_wanted(number, count):
                shown = self._place.shown(path)
                for entry in self._wanted(shown, lines, number):
                    results.append(self._result(shown, entry))
                    matches += entry.is_match
            number += count
        return {"total_matches": total, "matches_count": matches, "results": results}

    def _wanted(self, file: str, lines: bytes, first: int) -> Iterator[Entry]:
        """Yield the lines of one file that are in the requested part and fit; the first has the number `first`."""
        for number, entry in enumerate(entries(lines), first):
            if self._is_wanted(number) and self._fits(file + entry.text[:MAX_LINE]):
                yield entry
            elif self.is_capped:
                return

    def _result(self, file: str, entry: Entry) -> dict[str, Any]:
        text = entry.text
        if len(text) > MAX_LINE:
            text = f"{text[:MAX_LINE]} [{len(text) - MAX_LINE:,} more characters]"
        number = {"line_number": entry.number} if self._call.line_numbers else {}
        return {"file": file, **number, "content": text, **({} if entry.is_match else {"is_context": True})}

    def _has_wanted(self, number: int, count: int) -> bool:
        """Return whether any of `count` entries is in the requested part; set `is_capped` when they come after it."""
        return number + count > self._call.offset and self._is_wanted(max(number, self._call.offset))

    def _is_wanted(self, number: int) -> bool:
        """Return whether an entry is in the requested part; set `is_capped` when it comes after it."""
        if number < self._call.offset:
            return False
        if self._call.limit is not None and number >= self._call.offset + self._call.limit:
            self.is_capped = True
        return not self.is_capped

    def _fits(self, text: str) -> bool:
        self._room -= len(text) + 40
        if self._room < 0 and not self.is_capped:
            self.is_capped = True
            self.notes.append(TOO_MUCH)
        return not self.is_capped
