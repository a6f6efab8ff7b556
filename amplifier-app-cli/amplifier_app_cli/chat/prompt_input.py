"""Input at the prompt: completion of commands and files, history, and which text was pasted."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.say import say
from amplifier_foundation.prompt.user_input import Span, UserInput
from amplifier_kit.guard.private_files import append, make_private, open_private

_MENTION: Final = re.compile(r"(?:^|(?<=[\s(\[\"']))@([A-Za-z0-9_./~-]*)$")
_COMMAND: Final = re.compile(r"/([a-z-]*)$")


def is_completable(text_before_cursor: str) -> bool:
    """Return whether a command or a mention is being typed, so that a menu helps."""
    return bool(_COMMAND.fullmatch(text_before_cursor) or _MENTION.search(text_before_cursor))


class ChatCompleter(Completer):
    """Offer commands and files."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], files: ProjectFiles) -> None:
        """Offer the names of `commands`, with their summaries, and the files of `files`."""
        self._commands = commands
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may be meant by the text before the cursor."""
        text = document.text_before_cursor
        if command := _COMMAND.fullmatch(text):
            for name, summary in self._commands().items():
                if name.startswith(command[1]):
                    yield Completion(f"/{name}", start_position=-len(text), display_meta=plain(summary))
        elif mention := _MENTION.search(text):
            for path in self._files.matching(mention[1]):
                yield Completion(path, start_position=-len(mention[1]), display=plain(path))


_MOST: Final = 5_000
_SECONDS: Final = 0.25
#: Seconds until the list of files is read again.
_FRESH: Final = 5.0
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
#: What a mention can name.
_MENTIONABLE: Final = re.compile(r"[A-Za-z0-9_./~-]+")


class ProjectFiles:
    """The files of one project, those near its root first."""

    def __init__(self, root: Path, *, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._root = root
        self._most = most
        self._seconds = seconds
        self._known: list[str] = []
        self._read_at: float | None = None

    def matching(self, typed: str, limit: int = 50) -> list[str]:
        """Return paths, relative to the project, that may be meant: those that begin so, then those that have it."""
        here = self._beside(typed)
        if self._read_at is None or time.monotonic() - self._read_at > _FRESH:
            self._known = self._walk()
            self._read_at = time.monotonic()
        wanted = typed.casefold()
        begins = [path for path in self._known if path.casefold().startswith(wanted)]
        inside = [path for path in self._known if wanted and wanted in path.casefold()]
        return list(dict.fromkeys([*here, *begins, *inside]))[:limit]

    def _beside(self, typed: str) -> list[str]:
        """Return the content of the folder that is typed already, however deep it is."""
        folder, _, beginning = typed.rpartition("/")
        if not folder or ".." in folder.split("/") or folder.startswith(("/", "~")):
            return []
        entries = _entries(self._root / folder, f"{folder}/", with_hidden=beginning.startswith("."))
        start = len(folder) + 1
        return [path for path, _ in entries if path[start:].casefold().startswith(beginning.casefold())]

    def _walk(self) -> list[str]:
        """Return the files breadth first, up to the limits of number and time."""
        found: list[str] = []
        todo: deque[tuple[Path, str]] = deque([(self._root, "")])
        until = time.monotonic() + self._seconds
        while todo and len(found) < self._most and time.monotonic() < until:
            folder, prefix = todo.popleft()
            for path, is_folder in _entries(folder, prefix):
                found.append(path)
                if is_folder:
                    todo.append((self._root / path, path))
        return found[: self._most]


def _entries(folder: Path, prefix: str, *, with_hidden: bool = False) -> list[tuple[str, bool]]:
    """Return what a folder holds that a mention can name, sorted; folders end in a slash, links are not followed."""
    entries: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as scanned:
            for entry in scanned:
                if (entry.name.startswith(".") and not with_hidden) or not _MENTIONABLE.fullmatch(entry.name):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder or entry.name not in _SKIPPED:
                    entries.append((f"{prefix}{entry.name}{'/' if is_folder else ''}", is_folder))
    except OSError:
        return []  # an unreadable folder offers no completions
    return sorted(entries)


class ProjectHistory(FileHistory):
    """Keep inputs in `path`, without secrets. A file that cannot be used is reported once."""

    def __init__(self, path: Path, scrub: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._scrub = scrub
        self._is_reported = False
        #: The last stored input: repeated input is stored once.
        self._last: str | None = None

    def load_history_strings(self) -> list[str]:
        """Return what is remembered, the newest first."""
        try:
            loaded = list(super().load_history_strings())
        except OSError as error:
            self._report(error)
            return []
        self._last = loaded[0] if loaded else None
        return loaded

    def append_string(self, string: str) -> None:
        """Remember an input."""
        kept = self._scrub(string)
        if kept != self._last:
            self._last = kept
            super().append_string(kept)

    def store_string(self, string: str) -> None:
        """Write an input down; the file is made for its owner alone."""
        try:
            make_private(self._path.parent)
            lines = "".join(f"+{line}\n" for line in string.split("\n"))
            descriptor = open_private(self._path)
            try:
                os.fchmod(descriptor, 0o600)  # one that another program made may be open to all
                append(descriptor, f"\n# {datetime.now()}\n{lines}".encode("utf-8", "surrogateescape"))
            finally:
                os.close(descriptor)
        except OSError as error:
            self._report(error)

    def _report(self, error: OSError) -> None:
        if not self._is_reported:
            self._is_reported = True
            say(f"amplifier: {self._path}: the history cannot be kept: {error.strerror or error}")


class PastedText:
    """Track which spans of a buffer's text were not typed."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        #: Text and stretches of each line that was looked at: arrow keys move through the history and back.
        self._lines: dict[int, tuple[str, tuple[Span, ...]]] = {}
        self.start()
        buffer.on_text_changed += self._on_change

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return the stretches that were not typed."""
        return self._lines.get(self._line, ("", ()))[1]

    def start(self, spans: tuple[Span, ...] = ()) -> None:
        """Begin with what the buffer holds now, of which `spans` were not typed; call it after every reset."""
        self._lines = {self._line: (self._buffer.text, spans)}

    def taken(self, text: str) -> UserInput:
        """Return the text of the buffer, as it is sent, with what of it was typed."""
        return UserInput.of_typed(text, self.spans)

    @property
    def _line(self) -> int:
        """Return which line is edited, counted from the end: what was said before is loaded little by little."""
        return len(self._buffer._working_lines) - self._buffer.working_index

    def _on_change(self, buffer: Buffer) -> None:
        line, new = self._line, buffer.text
        if line not in self._lines:  # from the history, where mentions that were pasted are escaped
            self._lines[line] = (new, ())
            return
        old, spans = self._lines[line]
        start, removed, added = _change(old, new, buffer.cursor_position)
        kept = [moved for span in spans if (moved := _moved(span, start, removed, added)) is not None]
        if added > 1:
            kept.append((start, start + added))
        self._lines[line] = (new, tuple(sorted(kept)))


def _change(old: str, new: str, cursor: int) -> tuple[int, int, int]:
    """Return where a text was changed, how many characters went, and how many came."""
    added = len(new) - len(old)
    if added > 0:
        # The cursor stands where the text was put in, or behind it: the texts alone may be ambiguous.
        for start in (cursor, cursor - added):
            if start >= 0 and old[:start] == new[:start] and old[start:] == new[start + added :]:
                return start, 0, added
    start = 0
    shortest = min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    end = 0
    while end < shortest - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, len(old) - start - end, len(new) - start - end


def _moved(span: Span, start: int, removed: int, added: int) -> Span | None:
    """Return where a stretch is after a change, what was put into it included; None when nothing is left of it."""
    first, last = span
    end = start + removed
    first = first if first < start or (first == start and not added) else max(first, end) + added - removed
    last = last if last <= start else max(last, end) + added - removed
    return (first, last) if first < last else None
