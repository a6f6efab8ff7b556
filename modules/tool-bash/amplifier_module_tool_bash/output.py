"""What a command has printed: kept in files where it is too long for a result, and made into tool results.

Results show the output as the command wrote it. Files are redacted as they are written, so that no secret is ever on
disk, even if this process is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from amplifier_core import ToolResult
from amplifier_kit.guard.private_files import make_private, write_unmasked
from amplifier_kit.guard.processes.output import FLOOD, Output, Shown, is_binary
from amplifier_kit.guard.processes.running_command import Outcome, signal_name
from amplifier_kit.guard.redaction.redactor import process_redactor
from amplifier_kit.guard.redaction.stream import RedactingStream

# --- files of output ---

#: Bytes of all files in a folder; the oldest are removed first.
FOLDER_LIMIT: Final = 256 * 1024 * 1024


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


class SavedOutput(Output):
    """One output stream of a command, whole in a file if it is too long to be shown."""

    def __init__(
        self,
        limit: int,
        folder: OutputFolder,
        *,
        name: str = "output",
        is_always_kept: bool = False,
        file_limit: int = FLOOD,
    ) -> None:
        """Show up to `limit` bytes; write longer output to a file in `folder`, up to `file_limit` bytes.

        With `is_always_kept` the file is made at once, for output of any length: raises OSError.
        """
        super().__init__(limit)
        self._folder = folder
        self._name = name
        self._file_limit = file_limit
        self._file: int | None = None
        self._redactor: RedactingStream | None = None
        self._has_masked = False
        #: Bytes of the command's output that are in the file, or on the way to it.
        self._saved = 0
        self.path: Path | None = None
        self.problem = ""
        if is_always_kept:
            self._open_file()

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never raises."""
        if self.total <= self._limit < self.total + len(data):
            self._open_late(bytes(self._start))
        super().feed(data)
        self._save(data)

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
        if self.path is not None:
            self._folder.release(self.path)

    def shown(self) -> Shown:
        """Return what to show of the output so far, and its file."""
        if self.total <= self._limit and self.path is None and is_binary(bytes(self._start)):
            self._open_late(bytes(self._start))
            self.close()
        return super().shown()._replace(path=self.path, problem=self.problem)

    def _remark(self) -> str:
        if self.path is None:
            return f"; they could not be kept: {self.problem}" if self.problem else ""
        masked = ", with secrets masked," if self._has_masked else ""
        if self._saved < self.total:
            return f"; the first {self._saved:,} bytes of all{masked} are in {self.path}"
        return f"; the whole output{masked} is in {self.path}"

    def _open_late(self, data: bytes) -> None:
        """Create the file with the output so far, unless there is one or it has failed."""
        if self._file is not None or self.problem:
            return
        try:
            self._open_file()
        except OSError as error:
            self.problem = error.strerror or str(error)
        else:
            self._save(data)

    def _open_file(self) -> None:
        self.path, self._file = self._folder.create(self._name)
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


# --- results ---


def failure(code: str, message: str) -> ToolResult:
    """Return the result of a command that was not run."""
    return ToolResult(success=False, output=message, error={"message": message, "code": code})


def finished(outcome: Outcome, stdout: Shown, stderr: Shown, timeout: float, remark: str = "") -> ToolResult:
    """Return the result of a command that was run: output, errors, exit code and notes.

    `remark` is an additional note, such as what the sandbox blocked.
    """
    output: dict[str, Any] = {"stdout": stdout.text, "stderr": stderr.text, "returncode": outcome.returncode}
    if stdout.is_cut or stderr.is_cut:
        output |= {"truncated": True, "stdout_total_bytes": stdout.total, "stderr_total_bytes": stderr.total}
    for name, shown in (("stdout_file", stdout), ("stderr_file", stderr)):
        if shown.path is not None:
            output[name] = str(shown.path)
    code, ending = _ending(outcome, timeout)
    notes = [ending] if code not in ("", "exit_code") else []
    notes += [*_notes(outcome), *([remark] if remark else [])]
    if notes:
        output["message"] = " ".join(notes)
    if not code:
        return ToolResult(success=True, output=output)
    return ToolResult(success=False, output=output, error={"message": ending, "code": code})


def _ending(outcome: Outcome, timeout: float) -> tuple[str, str]:
    """Return an error code and a sentence for a command that failed, else empty texts."""
    number = outcome.returncode
    if outcome.is_timed_out:
        return "timeout", (
            f"Command timed out after {timeout:g} seconds and was stopped, with all it had started. "
            "Give it a longer `timeout`, or use `run_in_background`."
        )
    if number is None:
        return (
            "lost",
            "The command's supervisor was killed, so the command was stopped; how far it came is not known.",
        )
    if number < 0:
        return "signal", f"Command was ended by signal {-number} ({signal_name(-number)})."
    if number:
        return "exit_code", f"Command failed with exit code {number}."
    return "", ""


def _notes(outcome: Outcome) -> list[str]:
    notes = []
    if outcome.leftovers:
        what = "a process" if outcome.leftovers == 1 else f"{outcome.leftovers} processes"
        notes.append(
            f"The command left {what} behind, stopped now; use `run_in_background` for processes that should continue."
        )
    if outcome.alive:
        notes.append(f"Could not be stopped: process {', '.join(map(str, outcome.alive))}.")
    return notes
