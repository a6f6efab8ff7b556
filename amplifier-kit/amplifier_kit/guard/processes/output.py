"""Collect the output of a command: all of it up to a limit, else its beginning and its end, and the whole in a file.

Results show the output as the command wrote it. Files are redacted as they are written, so that no secret is ever on
disk, even if this process is killed.
"""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_kit.guard.private_files import make_private, write_unmasked
from amplifier_kit.guard.redaction import RedactingStream, process_redactor

#: Bytes of one stream that go to its file.
FILE_LIMIT: Final = 64 * 1024 * 1024
#: Bytes of all files in a folder; the oldest are removed first.
FOLDER_LIMIT: Final = 256 * 1024 * 1024
#: The fraction of the limit that is shown of the beginning, and of the end.
_SHARE: Final = 0.4
#: Bytes of the end that are searched for the last line.
_LINE_LIMIT: Final = 2000

#: Terminal control sequences: colours, cursor movements, titles.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REPLACEMENT: Final = "\ufffd"
#: Output with a larger fraction of undecodable bytes and control characters is binary.
_BINARY_SHARE: Final = 0.3
_BINARY_SAMPLE: Final = 8192
_SPACE: Final = re.compile(r"\s")
#: Where a long line may be cut: half a word could be half a secret, which redaction would not recognise.
_WORD_BREAK: Final = re.compile(rb"[\s\"'`<>(){}\[\],;|]")
_LONGEST_WORD: Final = 1024


class OutputFolder:
    """Creates output files in one folder, which is made with the first of them and never exceeds its limit for long."""

    def __init__(self, path: Path | None = None, *, limit: int = FOLDER_LIMIT) -> None:
        """Use `path`, or a temporary folder that `close` removes."""
        self._path = path
        self._limit = limit
        self._is_temporary = path is None
        self._open: set[Path] = set()

    def create(self, prefix: str) -> tuple[Path, int]:
        """Create a file that only its owner can read; return its path and descriptor. Raises OSError."""
        if self._path is None:
            import tempfile

            self._path = Path(tempfile.mkdtemp(prefix="amplifier-output-"))
        make_private(self._path.parent)
        self._path.mkdir(mode=0o700, exist_ok=True)
        self._prune(self._path)
        path = self._path / f"{prefix}-{os.urandom(6).hex()}.out"
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._open.add(path)
        return path, number

    def release(self, path: Path) -> None:
        """Allow a file that is complete to be removed when the folder is full."""
        self._open.discard(path)

    def close(self) -> None:
        """Remove a temporary folder; prune any other."""
        import shutil

        self._open.clear()
        if self._path is not None and self._is_temporary:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        elif self._path is not None:
            self._prune(self._path)

    def _prune(self, folder: Path) -> None:
        """Remove the oldest complete files until the rest is within the limit."""
        found = []
        for path in folder.glob("*.out"):
            try:
                status = path.lstat()
            except OSError:
                continue  # removed meanwhile
            found.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self._limit:
                return
            if path not in self._open:
                path.unlink(missing_ok=True)
                total -= size


class Shown(NamedTuple):
    """The part of a stream that fits into a result, and the file with the rest."""

    text: str
    is_cut: bool
    total: int
    #: The file with all of it, or with its first FILE_LIMIT bytes.
    path: Path | None
    #: Why there is no file.
    problem: str


class Output:
    """One output stream of a command, in bounded memory."""

    def __init__(
        self,
        limit: int,
        folder: OutputFolder | None = None,
        *,
        name: str = "output",
        is_always_kept: bool = False,
        file_limit: int = FILE_LIMIT,
    ) -> None:
        """Show up to `limit` bytes; write longer output to a file in `folder`.

        With `is_always_kept` the file is made at once, for output of any length: raises OSError.
        """
        self._limit = limit
        self._part = max(1, int(limit * _SHARE))
        self._folder = folder
        self._name = name
        self._file_limit = file_limit
        self._start = bytearray()
        self._end = bytearray()
        self._file: int | None = None
        self._redactor: RedactingStream | None = None
        self._has_masked = False
        #: Bytes of the command's output that are in the file, or on the way to it.
        self._saved = 0
        self.total = 0
        self.path: Path | None = None
        self.problem = ""
        if is_always_kept and folder is not None:
            self._open_file(folder)

    @property
    def is_flood(self) -> bool:
        """Whether there is more output than is kept, so that reading may slow down."""
        return self.total > self._file_limit

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never raises."""
        was_short = self.total <= self._limit
        self.total += len(data)
        if self.total <= self._limit:
            self._start += data
        else:
            if was_short:
                self._open_late(bytes(self._start))
                self._end += self._start
                self._start += data
                del self._start[self._part :]
            self._end += data
            if len(self._end) > 2 * self._part:
                del self._end[: -self._part]
        self._save(data)

    def last_line(self) -> str:
        """Return the last line that is not blank, without words that may be incomplete."""
        kept = self._end or self._start
        text = _decode(bytes(kept[-_LINE_LIMIT:])).replace("\r", "\n")
        if len(kept) > _LINE_LIMIT and (first := _SPACE.search(text)):
            text = text[first.end() :]
        if text and not text[-1].isspace():
            text = text[: max(text.rfind(space) for space in " \t\n") + 1]
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def close(self) -> None:
        """Complete the file."""
        redacting, self._redactor = self._redactor, None
        if redacting is not None:
            if self.total <= self._file_limit:
                self._write(redacting.finish())
            else:
                self._saved -= redacting.discard()  # the incomplete last line could end with half a secret
            self._has_masked = redacting.has_masked
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self.path is not None and self._folder is not None:
            self._folder.release(self.path)

    def shown(self) -> Shown:
        """Return what to show of the output so far."""
        is_cut = self.total > self._limit
        if is_cut:
            head, tail = _cut_head(bytes(self._start[: self._part])), _cut_tail(bytes(self._end[-self._part :]))
        else:
            head, tail = bytes(self._start), b""
        if _is_binary(head) or _is_binary(tail):
            if not is_cut and self.path is None:
                self._open_late(head)
                self.close()
            text = f"[binary output, {self.total:,} bytes{self._describe_file()}]"
        elif is_cut:
            begin = _decode(head)
            line_end = "" if begin.endswith("\n") or not begin else "\n"
            omitted = self.total - len(head) - len(tail)
            text = f"{begin}{line_end}[... {omitted:,} bytes left out here{self._describe_file()} ...]\n{_decode(tail)}"
        else:
            text = _decode(head)
        return Shown(text, is_cut, self.total, self.path, self.problem)

    def _describe_file(self) -> str:
        if self.path is None:
            return f"; they could not be kept: {self.problem}" if self.problem else ""
        masked = ", with secrets masked," if self._has_masked else ""
        if self._saved < self.total:
            return f"; the first {self._saved:,} bytes of all{masked} are in {self.path}"
        return f"; the whole output{masked} is in {self.path}"

    def _open_late(self, data: bytes) -> None:
        """Create the file with the output so far, unless there is one or it has failed."""
        if self._folder is None or self._file is not None or self.problem:
            return
        try:
            self._open_file(self._folder)
        except OSError as error:
            self.problem = error.strerror or str(error)
        else:
            self._save(data)

    def _open_file(self, folder: OutputFolder) -> None:
        self.path, self._file = folder.create(self._name)
        self._redactor = RedactingStream(process_redactor().scrub_text)

    def _save(self, data: bytes) -> None:
        part = data[: max(0, self._file_limit - self._saved)]
        if self._redactor is None or not part:
            return
        self._saved += len(part)
        redacted = self._redactor.feed(part)
        self._has_masked = self._redactor.has_masked
        self._write(redacted)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            write_unmasked(self._file, data)
        except OSError as error:
            # Typically a full disk: remove the file, so that it is not made worse.
            self.problem = error.strerror or str(error)
            path, self._redactor = self.path, None
            self.close()
            self.path = None
            if path is not None:
                path.unlink(missing_ok=True)


def _decode(data: bytes) -> str:
    """Decode UTF-8 without terminal control sequences; other bytes and control characters become U+FFFD."""
    return _CONTROLS.sub(_REPLACEMENT, _ESCAPES.sub("", data.decode("utf-8", "replace")))


def _is_binary(data: bytes) -> bool:
    sample = data[:_BINARY_SAMPLE]
    if len(sample) < 8:
        return False
    text = _decode(sample)
    return text.count(_REPLACEMENT) > _BINARY_SHARE * len(text)


def _cut_head(data: bytes) -> bytes:
    """Cut the last line off, or the last word or character of a very long line."""
    end = data.rfind(b"\n") + 1
    if end > len(data) // 2:
        return data[:end]
    if words := list(_WORD_BREAK.finditer(data, max(len(data) // 2, len(data) - _LONGEST_WORD))):
        return data[: words[-1].end()]
    # Not final: an incomplete character at the end is not consumed.
    return data[: codecs.utf_8_decode(data, "replace", False)[1]]


def _cut_tail(data: bytes) -> bytes:
    """Cut the first line off, or the first word or character of a very long line."""
    start = data.find(b"\n") + 1
    if 0 < start < len(data) - len(data) // 2:
        return data[start:]
    if word := _WORD_BREAK.search(data, 0, min(len(data) // 2, _LONGEST_WORD)):
        return data[word.start() :]
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
