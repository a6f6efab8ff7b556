"""Take in what a command writes: all of it while it is little, its beginning and end when it is much.

What is shown is what the command wrote. What goes to a file is masked before it does, so that nothing unmasked is on a
disk at any time, also when this process is killed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_kit.guard.private_files import write_unmasked
from amplifier_kit.guard.processes.output_folder import OutputFolder
from amplifier_kit.guard.processes.printable_text import cut_head, cut_tail, cut_words, is_binary, readable
from amplifier_kit.guard.redaction import RedactingStream, process_redactor

#: What one stream may take on disk; more is counted, but not kept.
FILE_LIMIT: Final = 64 * 1024 * 1024
#: Of the limit, what is kept of the beginning, and of the end.
_SHARE: Final = 0.4
#: How much of the end is looked at for the last line.
_LINE_LIMIT: Final = 2000


class Shown(NamedTuple):
    """What of a stream fits into a result, and where the rest is."""

    text: str
    is_cut: bool
    total: int
    #: Where all of it is, or its first FILE_LIMIT bytes.
    path: Path | None
    #: Why it could not be kept in a file.
    problem: str


class Output:
    """One stream of a command. Memory is bounded by the limit, whatever comes."""

    def __init__(
        self,
        limit: int,
        folder: OutputFolder | None = None,
        *,
        name: str = "output",
        is_always_kept: bool = False,
        file_limit: int = FILE_LIMIT,
    ) -> None:
        """Show up to `limit` bytes; keep what is more in a file of `folder`, or all of it when it is always kept.

        A file that is always kept is made at once: raises OSError.
        """
        self._limit = limit
        self._part = max(1, int(limit * _SHARE))
        self._folder = folder
        self._name = name
        self._file_limit = file_limit
        self._start = bytearray()
        self._end = bytearray()
        self._file: int | None = None
        self._masking: RedactingStream | None = None
        #: How many of the command's bytes the file stands for.
        self._kept = 0
        self._has_masked = False
        self.total = 0
        self.path: Path | None = None
        self.problem = ""
        if is_always_kept and folder is not None:
            self._open_file(folder)

    @property
    def is_flood(self) -> bool:
        """Tell whether more has come than anybody keeps: whoever reads may take their time."""
        return self.total > self._file_limit

    def feed(self, data: bytes) -> None:
        """Take in the next bytes; never raises."""
        was_whole = self.total <= self._limit
        self.total += len(data)
        is_whole = self.total <= self._limit
        if is_whole:
            self._start += data
            self._save(data)
            return
        if was_whole:
            if self._file is None and not self.problem:
                self._begin_file(bytes(self._start))
            self._end += self._start
            self._start += data
            del self._start[self._part :]
        self._end += data
        if len(self._end) > 2 * self._part:
            del self._end[: -self._part]
        self._save(data)

    def last_line(self) -> str:
        """Return the last line that has something in it, as it may be shown; no part of a word at either end of it."""
        kept = self._end or self._start
        text = readable(bytes(kept[-_LINE_LIMIT:])).replace("\r", "\n")
        text = cut_words(text, starts_inside=len(kept) > _LINE_LIMIT, ends_inside=True)
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def close(self) -> None:
        """Write to the file no more."""
        masking, self._masking = self._masking, None
        if masking is not None:
            if self.total <= self._file_limit:
                self._write(masking.finish())
            else:
                self._kept -= masking.discard()  # what was cut off in the middle could be half a secret
            self._has_masked = masking.has_masked
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.path is not None and self._folder is not None:
            self._folder.release(self.path)

    def shown(self) -> Shown:
        """Return what is to be shown now."""
        if self.total <= self._limit:
            whole = bytes(self._start)
            if not is_binary(whole):
                return Shown(readable(whole), False, self.total, self.path, self.problem)
            self._keep_binary(whole)
            return Shown(f"[binary output, {self.total:,} bytes{self._where()}]", False, *self._facts())
        head, tail = cut_head(bytes(self._start[: self._part])), cut_tail(bytes(self._end[-self._part :]))
        if is_binary(head) or is_binary(tail):
            return Shown(f"[binary output, {self.total:,} bytes{self._where()}]", True, *self._facts())
        gone = self.total - len(head) - len(tail)
        marker = f"[... {gone:,} bytes left out here{self._where()} ...]"
        begin = readable(head)
        line = "" if begin.endswith("\n") or not begin else "\n"
        return Shown(f"{begin}{line}{marker}\n{readable(tail)}", True, *self._facts())

    def _facts(self) -> tuple[int, Path | None, str]:
        return self.total, self.path, self.problem

    def _where(self) -> str:
        if self.path is None:
            return f"; they could not be kept: {self.problem}" if self.problem else ""
        masked = ", with secrets masked," if self._has_masked else ""
        if self._kept < self.total:
            return f"; the first {self._kept:,} bytes of all{masked} are in {self.path}"
        return f"; the whole output{masked} is in {self.path}"

    def _keep_binary(self, whole: bytes) -> None:
        if self.path is None and not self.problem:
            self._begin_file(whole)
            self.close()

    def _begin_file(self, data: bytes) -> None:
        if self._folder is None:
            return
        try:
            self._open_file(self._folder)
        except OSError as error:
            self.problem = error.strerror or str(error)
            return
        self._save(data)

    def _open_file(self, folder: OutputFolder) -> None:
        self.path, self._file = folder.create(self._name)
        self._masking = RedactingStream(process_redactor().scrub_text)

    def _save(self, data: bytes) -> None:
        if self._masking is None:
            return
        part = data[: max(0, self._file_limit - self._kept)]
        if part:
            self._kept += len(part)
            masked = self._masking.feed(part)
            self._has_masked = self._masking.has_masked
            self._write(masked)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            write_unmasked(self._file, data)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Leave a full disk no fuller than it was."""
        self.problem = error.strerror or str(error)
        path, self._masking = self.path, None
        self.close()
        self.path = None
        if path is not None:
            path.unlink(missing_ok=True)
