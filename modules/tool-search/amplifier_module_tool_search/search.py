"""Search: what the tools do when they are called. The work is done in a thread, which starts processes."""

from __future__ import annotations

import asyncio
import fnmatch
import heapq
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_kit.engine.current_call import progress_reports
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_program
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.threads import in_thread, run_stoppable
from amplifier_module_tool_search.answer import MAX_CHARACTERS, TOO_MUCH, Answer
from amplifier_module_tool_search.calls import GlobCall, GrepCall, SearchError
from amplifier_module_tool_search.config import SearchConfig
from amplifier_module_tool_search.glob_pattern import expand_braces
from amplifier_module_tool_search.hidden import Hidden
from amplifier_module_tool_search.output import CountOutput, LineOutput, Notes, Output, PathOutput
from amplifier_module_tool_search.place import Place, Places, readable
from amplifier_module_tool_search.ripgrep import Selection, find_ripgrep, pattern_options, selection_options

#: Seconds between events about a search that is not finished.
PROGRESS_PERIOD: Final = 1.0
#: The most memory of the fallback: Python's regular expressions store every place to backtrack to.
MAX_MEMORY: Final = 2 * 1024**3
#: Seconds past its time that the thread gets to end by itself.
_GRACE: Final = 5.0
#: ripgrep logs the files that it leaves out: which of them are too large is of interest.
_STDERR_LIMIT: Final = 16 * 1024 * 1024
_FALLBACK: Final = os.path.join(os.path.dirname(__file__), "fallback.py")
#: Folders that a search of the root folder leaves out.
_SYSTEM: Final = ("proc/", "sys/", "dev/")

How = Literal["done", "late", "enough"]


class SearchRun:
    """One search in its thread: the place, the engine, the time that is left, and what is noted on the way."""

    def __init__(
        self, place: Place, ripgrep: str | None, hidden: Hidden | None, seconds: float, stop: threading.Event
    ) -> None:
        self.place = place
        self.ripgrep = ripgrep
        self.hidden = hidden
        self.seconds = seconds
        self.notes = Notes(None if hidden is None else hidden.hides)
        self.how: How = "done"
        self._deadline = time.monotonic() + seconds
        self._stop = stop

    def is_late(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._deadline

    def list_files(self, selection: Selection, *, with_folders: bool = False) -> tuple[list[str], int]:
        """Return the paths of the files of a selection, without hidden ones, and the exit code of the listing.

        Folders, which ripgrep does not list, end with a slash.
        """
        output = PathOutput()
        if self.ripgrep is not None and not with_folders:
            with selection_options(selection, self.place) as (options, fds):
                code = self.run([self.ripgrep, "--files", "--null", *options, "./"], output, fds=fds)
        else:
            asked = {
                "exclusions": () if selection.includes_ignored else selection.exclusions,
                "ignores": not selection.includes_ignored,
                "without": _SYSTEM if self.place.path == "/" else (),
                "folders": with_folders,
                "library": _library_folder(),
            }
            code = self.run_fallback(asked, output)
        return list(output.files) if self.hidden is None else self.hidden.remove(output.files), code

    def run_fallback(self, asked: Mapping[str, Any], output: Output, fds: Sequence[int] = ()) -> int:
        """Run a request to the fallback; see `run`."""
        if not sys.executable:
            raise SearchError("no_engine", "neither ripgrep nor a Python program can be started here: install ripgrep")
        options = ["-I", "-S", "-X", "utf8", *(["-B"] if sys.dont_write_bytecode else [])]
        data = json.dumps({**asked, "seconds": self.seconds}).encode()
        return self.run([sys.executable, *options, _FALLBACK], output, data=data, fds=fds)

    def run(self, argv: Sequence[str], output: Output, *, data: bytes | None = None, fds: Sequence[int] = ()) -> int:
        """Run a process that searches, and read its output; return its exit code.

        What it had found when it was stopped, because the time was up or it had found enough, counts; see `how`.
        """
        code, stderr = -1, b""
        try:
            result = run_program(
                argv,
                timeout=self._deadline - time.monotonic(),
                environment={"LC_ALL": "C.UTF-8"},
                cwd=Path(self.place.entrance if self.place.is_folder else "/"),
                because="paths are printed as seen from there; ripgrep reads no config, Python no modules (-I -S)",
                data=data,
                is_split=True,
                limit=_STDERR_LIMIT,
                on_stdout=output.take,
                pass_fds=fds,
                stop=self._stop,
            )
            code, stderr = result.returncode, result.stderr
            self.how = "enough" if output.is_too_much else self.how
        except CommandTimeoutError as error:
            self.how, stderr = "late", error.stderr
        output.close()
        self.notes.read(stderr)
        return code

    def check(self, code: int, *, is_empty: bool) -> list[str]:
        """Return notes about a search that did not finish; raise SearchError when it found nothing.

        Finding nothing in a part of the files is not the same as finding nothing.
        """
        if self.how == "late":
            text = f"stopped after {self.seconds:g} s, before everything was searched: narrow the search"
            if is_empty:
                raise SearchError("timeout", text)
            return [text]
        if self.how == "enough":
            return ["stopped because there is too much to read: narrow the search"]
        if code in (0, 1):
            return []
        # When a file was searched, the pattern is valid; other messages are then ripgrep's log of trying its engines.
        if is_empty and self.notes.complaints and not self.notes.has_unreadable:
            # Two engines were tried: the message of the first is enough.
            text = "\n".join(self.notes.complaints).partition("\nregex could not be compiled")[0]
            is_pattern = any(word in text for word in ("regex", "PCRE2", "pattern"))
            raise SearchError("invalid_pattern" if is_pattern else "search_failed", text)
        if code == 2:
            return []
        raise SearchError("search_failed", f"the searching process ended with code {code}")


def _library_folder() -> str:
    """Return where the library is that the fallback needs to read ignore rules."""
    spec = find_spec("pathspec")
    if spec is None or spec.origin is None:
        raise SearchError("no_engine", "the library pathspec is missing: install ripgrep, or Amplifier again")
    return os.path.dirname(os.path.dirname(spec.origin))


class Search(ABC):
    """One of the tools at work."""

    name: str

    def __init__(self, coordinator: Any, settings: SearchConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._places = Places(coordinator, settings)

    @abstractmethod
    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a call; raise SearchError."""

    async def _run(self, place: Place, seconds: float, work: Callable[[SearchRun], dict[str, Any]]) -> dict[str, Any]:
        """Do the work in a thread, which closes the place; raise SearchError."""

        def run(stop: threading.Event) -> dict[str, Any]:
            with closing(place):
                return work(SearchRun(place, ripgrep, hidden, seconds, stop))

        def report(elapsed: float) -> dict[str, Any]:
            return {"message": f"searching {readable(place.path)}", "elapsed_seconds": round(elapsed, 1)}

        try:
            hidden = Hidden.find(self._coordinator, self.name, place)
            ripgrep = await self._find_ripgrep()
        except BaseException:
            place.close()
            raise
        try:
            async with (
                progress_reports(self._coordinator, self.name, PROGRESS_PERIOD, report),
                asyncio.timeout(seconds + _GRACE),
            ):
                return await run_stoppable(run, grace=_GRACE)
        except TimeoutError:
            raise SearchError("timeout", f"{readable(place.path)} did not answer within {seconds:g} s") from None

    async def _find_ripgrep(self) -> str | None:
        engine = self._settings.engine
        found = None if engine == "python" else await in_thread(lambda: find_ripgrep(self._coordinator), grace=0)
        if found is None and engine == "rg":
            raise SearchError(
                "no_engine", "ripgrep 14 or newer is not installed, and config says engine: rg. Install it."
            )
        return found


# --- grep ---


class GrepSearch(Search):
    """Find files and lines that match a regular expression."""

    name = "grep"

    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        call = GrepCall.read(given, self._settings.grep)
        place = await self._places.open(self.name, given, call.path)
        return await self._run(place, self._settings.grep.timeout, lambda work: self._search(call, work))

    def _search(self, call: GrepCall, work: SearchRun) -> dict[str, Any]:
        answer = Answer(call, work.place)
        most = self._settings.grep.max_file_size
        output: Output = LineOutput(is_single=True)
        texts: list[str] = []
        if work.place.is_folder or _is_searchable(call, work, most):
            output, texts = self._grep(call, work)
        if isinstance(output, LineOutput) and output.has_binary and not work.place.is_folder:
            answer.notes.append("the file is binary and was not searched")
        result = answer.make(output)
        if answer.is_capped or work.how != "done":
            result["results_capped"] = True
        texts += [*answer.notes, *([] if work.hidden is None else work.hidden.notes())]
        if texts := [*texts, *work.notes.texts(most)]:
            result["notes"] = texts
        return result

    def _grep(self, call: GrepCall, work: SearchRun) -> tuple[Output, list[str]]:
        """Return what was found, with notes about a search that did not finish."""
        selection = _selection(self._settings.grep.exclusions, call.include_ignored)
        if work.ripgrep is None:
            output, code = self._grep_by_fallback(call, work, selection)
        else:
            output, code = self._grep_by_ripgrep(call, work, selection)
            if self._settings.engine == "auto" and any("not supported" in text for text in work.notes.complaints):
                # Lookaround and references, which a ripgrep without PCRE2 does not understand.
                work.notes.complaints.clear()
                output, code = self._grep_by_fallback(call, work, selection)
        # "Nothing found" must name the files that were not searched.
        large = {} if output.files else work.notes.large
        work.notes.large = {path: size for path, size in large.items() if _path_filter(call)(path)}
        return output, work.check(code, is_empty=not output.files)

    def _grep_by_ripgrep(self, call: GrepCall, work: SearchRun, selection: Selection) -> tuple[Output, int]:
        assert work.ripgrep is not None
        output = _output(call, work)
        program, place = [work.ripgrep], work.place
        has_lines = isinstance(output, LineOutput)
        if not place.is_folder:
            argv = [*program, "--no-config", *pattern_options(call, None, has_lines=has_lines), place.entrance]
            return output, work.run(argv, output, fds=(place.fd,))
        if work.hidden is not None:
            # All files, whatever the call selects: what the note says must depend on neither names nor contents.
            _, code = work.list_files(selection)
            if work.how != "done" or code not in (0, 1, 2):
                return output, code
            selection = selection._replace(hidden=work.hidden.met)
        selection = selection.narrow(call.glob, is_negated=call.is_glob_negated, names=call.names)
        most = self._settings.grep.max_file_size
        # The log names the files that are too large, but also each that the selection leaves out.
        is_logged = not selection.is_narrow
        with selection_options(selection, place) as (options, fds):
            searched = pattern_options(call, most, has_lines=has_lines, is_logged=is_logged)
            code = work.run([*program, *options, *searched, "./"], output, fds=fds)
        if not is_logged and not output.files and work.how == "done":
            _note_large_files(work, filter(_path_filter(call), work.list_files(selection)[0]), most)
        return output, code

    def _grep_by_fallback(self, call: GrepCall, work: SearchRun, selection: Selection) -> tuple[Output, int]:
        output, place = LineOutput(is_single=not work.place.is_folder), work.place
        most = self._settings.grep.max_file_size
        paths, code = [place.entrance], 0
        fds: tuple[int, ...] = (place.fd,)
        if place.is_folder:
            paths, code = work.list_files(selection)
            paths, fds = sorted(filter(_path_filter(call), paths)), ()
            if work.how != "done":
                return output, code
        asked = {
            "paths": paths,
            "pattern": call.pattern,
            "ignore_case": call.ignore_case,
            "multiline": call.multiline,
            "before": call.before if call.mode == "content" else 0,
            "after": call.after if call.mode == "content" else 0,
            "max_file_size": most,
            "memory": MAX_MEMORY,
        }
        return output, work.run_fallback(asked, output, fds) or code


def _output(call: GrepCall, work: SearchRun) -> Output:
    """Return what reads the output of ripgrep: lines when requested, and where nothing else gives the counts."""
    fits = _path_filter(call)
    hidden = work.hidden

    def is_shown(path: str) -> bool:
        return fits(path) and (hidden is None or not hidden.hides(path))

    if call.mode == "content" or not work.place.is_folder or (call.mode == "count" and call.multiline):
        return LineOutput(is_shown if work.place.is_folder else None, is_single=not work.place.is_folder)
    return CountOutput(is_shown) if call.mode == "count" else PathOutput(is_shown)


def _path_filter(call: GrepCall) -> Callable[[str], bool]:
    """Return the check whether a call selects a path; an engine checks a part of it, if anything."""
    if not call.names and call.glob is None:
        return bool  # every path

    def is_wanted(path: str) -> bool:
        name = path.rpartition("/")[2]
        if call.names and not any(fnmatch.fnmatchcase(name, pattern) for pattern in call.names):
            return False
        return call.glob is None or call.glob.matches(path) is not call.is_glob_negated

    return is_wanted


def _is_searchable(call: GrepCall, work: SearchRun, most: int) -> bool:
    """Return whether the named file fits the type and glob of the call and is not too large."""
    if not _path_filter(call)(os.path.basename(work.place.path)):
        return False
    size = os.stat(work.place.entrance).st_size
    if size > most:
        work.notes.large[work.place.shown("")] = size
    return size <= most


def _note_large_files(work: SearchRun, paths: Iterable[str], most: int) -> None:
    for number, path in enumerate(paths):
        if number % 128 == 0 and work.is_late():
            work.how = "late"
            return
        try:
            size = os.stat(path, dir_fd=work.place.fd, follow_symlinks=False).st_size
        except OSError:
            continue  # gone meanwhile
        if size > most:
            work.notes.large[readable(path)] = size


def _selection(exclusions: Sequence[str], includes_ignored: bool) -> Selection:
    return Selection(tuple(one for name in exclusions for one in expand_braces(name)), includes_ignored)


# --- glob ---


class _Found(NamedTuple):
    """A match of a glob, in the order of an answer: newest first, then by path."""

    age: int
    path: str
    kind: str
    size: int


class GlobSearch(Search):
    """Find files whose paths match a pattern."""

    name = "glob"

    async def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        call = GlobCall.read(given, self._settings.glob)
        place = await self._places.open(self.name, given, call.path, is_seen=call.is_path_shown)
        if not place.is_folder:
            place.close()
            raise SearchError("not_a_folder", f"{readable(place.path)} is a file; glob looks in folders")
        return await self._run(place, self._settings.glob.timeout, lambda work: self._search(call, work))

    def _search(self, call: GlobCall, work: SearchRun) -> dict[str, Any]:
        selection = _selection(self._settings.glob.exclusions, call.include_ignored)
        if work.hidden is None:  # otherwise all files: the note about them must not depend on names
            selection = selection.narrow(call.glob)
        paths, code = work.list_files(selection, with_folders=call.kind != "file")
        found = list(_look_up(call, work, paths))
        notes = work.check(code, is_empty=not found)
        matches: list[dict[str, Any]] = []
        room = MAX_CHARACTERS
        for each in heapq.nsmallest(call.limit, found):
            shown = work.place.shown(each.path)
            room -= len(shown) + 40
            if room < 0:
                notes.append(TOO_MUCH)
                break
            matches.append({"path": shown, "type": each.kind, "size": each.size})
        result: dict[str, Any] = {
            "pattern": call.pattern,
            "base_path": readable(work.place.path),
            "total_files": len(found),
            "count": len(matches),
            "matches": matches,
        }
        if work.how != "done" or len(matches) < len(found):
            result["results_capped"] = True
        notes += [] if work.hidden is None else work.hidden.notes()
        if notes := [*notes, *work.notes.texts(0)]:
            result["notes"] = notes
        return result


def _look_up(call: GlobCall, work: SearchRun, paths: Iterable[str]) -> Iterable[_Found]:
    """Yield the matches among the paths, as far as the time suffices."""
    for path in paths:
        is_folder = path.endswith("/")
        path = path.removesuffix("/")
        if call.kind not in ("any", "dir" if is_folder else "file") or not call.glob.matches(path):
            continue
        if any(glob.matches(path) for glob in call.excluded):
            continue
        if work.how == "done" and work.is_late():
            work.how = "late"
            return
        try:
            status = os.stat(path, dir_fd=work.place.fd, follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
        yield _Found(-status.st_mtime_ns, path, "dir" if is_folder else "file", status.st_size)
