"""Keep what a server writes to its standard error: in a file of bounded size, secrets hidden."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from pathlib import Path
from typing import Final

from amplifier_kit.guard.files.configured_file import ConfiguredFile
from amplifier_kit.guard.private_files import append
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.redaction.redactor import process_redactor
from amplifier_kit.guard.redaction.stream import RedactingStream
from amplifier_module_tool_mcp.server_entry import Mask

logger = logging.getLogger(__name__)

#: What one file holds; the one before it is kept too.
FILE_LIMIT: Final = 1 << 20
_LONGEST_LINE: Final = 8192
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
#: Lines among which the reason of a failure is looked for.
_LAST_LINES: Final = 50
#: Parts of stack traces and objects, and what programs print at the end of every failure.
_NOISE: Final = re.compile(
    r"^[\W_]*$|^\s+at |^\s+File |^Traceback |^Node\.js v|^\s*(?:code|errno|syscall|path|requireStack): "
    r"|npm (?:error|ERR!) (?:A complete log|Log files|You can rerun)|^npm (?:warn|notice)"
)
_ERROR: Final = re.compile(
    r"error|exception|fatal|fail|denied|cannot|can't|no such|not found|unknown|invalid", re.IGNORECASE
)
#: Control characters and escape sequences, which could move the cursor or colour the reader's terminal.
_CONTROL: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def log_path(folder: Path, server: str) -> Path:
    """Return the file of a server."""
    return folder / f"{_UNSAFE.sub('_', server)[:80] or 'server'}.log"


class ErrorStream(Output):
    """The standard error of one server, taken in line by line."""

    def __init__(
        self, server: str, path: Path, mask: Mask, *, is_verbose: bool = False, project: Path | None = None
    ) -> None:
        """Make the file, or go on at its end; one that cannot be made is said once, and the server runs without.

        With `project`, the path is of a config of that project, and its links do not lead out of it.
        """
        super().__init__(0)
        self._server = server
        self._redacting = RedactingStream(lambda text: process_redactor().scrub_text(mask.diagnostic(text)))
        self._is_verbose = is_verbose
        self._rest = b""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._taken = 0
        self._path = path
        self._named = ConfiguredFile(path, project)
        self._number = self._opened()

    @property
    def is_flood(self) -> bool:
        """Return whether the output is larger than what is kept."""
        return self._taken > FILE_LIMIT

    @property
    def error_line(self) -> str:
        """Return the last line that says something about an error, else the last one with words; empty if none."""
        lines = [line for line in self._last if not _NOISE.search(line)]
        return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "").strip()

    def feed(self, data: bytes) -> None:
        """Take in the next bytes; never raises."""
        self._take_in(self._redacting.feed(data))

    def _take_in(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines.append(rest)
            rest = b""
        self._rest = rest
        # Of a flood the end alone is of interest: why it stopped.
        for line in lines[-3:] if self.is_flood else lines:
            self._take(line)

    def close(self) -> None:
        """Write to the file no more."""
        self._take_in(self._redacting.finish())
        if self._rest:
            self._take(self._rest)
            self._rest = b""
        if self._number is not None:
            os.close(self._number)
            self._number = None

    def _take(self, line: bytes) -> None:
        text = _CONTROL.sub("", line[:_LONGEST_LINE].decode("utf-8", "replace")).rstrip()
        if not text:
            return
        self._last.append(text[:300])
        if self._taken > FILE_LIMIT:
            return
        self._taken += len(text) + 1
        if self._is_verbose:
            logger.info("mcp server %s: %s", self._server, text)
        if self._number is not None:
            cut = "" if self._taken <= FILE_LIMIT else "[more is not kept]\n"
            try:
                append(self._number, f"{text}\n{cut}".encode("utf-8", "replace"))
            except OSError as error:
                logger.warning("tool-mcp: %s cannot be written: %s", self._path, error)
                os.close(self._number)
                self._number = None

    def _opened(self) -> int | None:
        try:
            number = self._named.open_to_append()
            if os.fstat(number).st_size > FILE_LIMIT:
                os.close(number)
                self._named.set_aside(".1")
                number = self._named.open_to_append()
            return number
        except OSError as error:
            logger.warning("tool-mcp: %s cannot be written, so that its errors are not kept: %s", self._path, error)
            return None
