"""Read and write the files of a session, and files of JSON lines.

Writers replace a file as a whole, for its owner alone and without secrets: a reader finds the old content or the new.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import make_private, replace_file
from amplifier_foundation.sessions import metadata as stored_metadata
from amplifier_foundation.sessions.transcript import (
    TRANSCRIPT,
    History,
    history_line,
    kept_messages,
    load_history,
    store_history,
)
from amplifier_kit.log.files import NAME as LOG

logger = logging.getLogger(__name__)

__all__ = [
    "EVENTS_FILENAME",
    "METADATA_FILENAME",
    "TRANSCRIPT_FILENAME",
    "SessionFileError",
    "backup",
    "load_metadata",
    "load_transcript",
    "load_transcript_with_lines",
    "read_jsonl",
    "write_jsonl",
    "write_metadata",
    "write_transcript",
]

Message = dict[str, Any]
StrPath = str | os.PathLike[str]

EVENTS_FILENAME: Final = LOG
METADATA_FILENAME: Final = stored_metadata.NAME
TRANSCRIPT_FILENAME: Final = TRANSCRIPT

#: The key of a message's line in its file, counted from 1; never written.
LINE: Final = "line_num"


class SessionFileError(FoundationError, ValueError):
    """A file of a session is damaged."""

    code = "session_file_invalid"


# -- the files of a session --


def load_transcript(session_dir: StrPath) -> list[Message]:
    """Return the messages in the folder of a session, as they are in its file; none if it has no transcript yet.

    Lines without a message are left out with a warning; a file that is missing or has no valid line is replaced by its
    backup. Raises FileNotFoundError without the folder, SessionFileError if there is no backup either, HistoryError if
    the file cannot be read.
    """
    return [json.loads(line) for line in _history(session_dir).lines]


def load_transcript_with_lines(session_dir: StrPath) -> list[Message]:
    """Return the messages as `load_transcript` does, each with the number of its line as `line_num`."""
    history = _history(session_dir)
    return [{**json.loads(line), LINE: number} for number, line in zip(history.numbers, history.lines, strict=True)]


def write_transcript(session_dir: StrPath, messages: Iterable[Mapping[str, Any]]) -> None:
    """Replace the messages in the folder of a session; the file before becomes `transcript.jsonl.backup`.

    Messages of the system are left out, as are None and values that JSON cannot hold. The messages that
    context-persistent keeps for itself are replaced too. Raises OSError.
    """
    folder = Path(session_dir)
    make_private(folder)
    store_history(folder, [history_line(without_line(message)) for message in kept_messages(list(messages))])


def load_metadata(session_dir: StrPath) -> dict[str, Any]:
    """Return the metadata in the folder of a session; empty if it has none yet, from the backup if they are damaged.

    Raises FileNotFoundError without the folder, SessionFileError if the backup is damaged or missing too.
    """
    folder = existing(session_dir)
    loaded = stored_metadata.load_metadata(folder)
    if loaded.damaged:
        raise SessionFileError(f"{loaded.damaged}: restore a copy of it, or delete it")
    if loaded.data and loaded.warning:
        logger.warning(loaded.warning)
    return loaded.data


def write_metadata(session_dir: StrPath, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata in the folder of a session; keys with None are left out. Raises FileBusyError and OSError.

    The file before becomes `metadata.json.backup`, one that is damaged `metadata.json.damaged`.
    """
    folder = Path(session_dir)
    make_private(folder)
    stored_metadata.update_metadata(folder, metadata, is_whole=True)


def backup(path: StrPath, suffix: str = ".backup") -> Path:
    """Copy a file beside itself, under its name with `suffix`, and return the copy.

    For the folder of a session this is its transcript. Raises FileNotFoundError for a missing file, OSError.
    """
    source = Path(path)
    source = source / TRANSCRIPT if source.is_dir() else source
    copy = source.with_name(f"{source.name}{suffix}")
    if copy == source:
        raise ValueError(f"the copy of {source} needs another name: give a suffix")
    replace_file(copy, source.read_bytes())
    return copy


# -- files of JSON lines --


def read_jsonl(path: StrPath) -> list[dict[str, Any]]:
    """Return the objects in a file, one per line.

    A last line that a crash cut off is left out with a warning. Raises SessionFileError for any other line without an
    object, FileNotFoundError and OSError.
    """
    content = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    *lines, last = content.split(b"\n")
    records = [record for number, line in enumerate(lines, 1) if (record := _record(path, number, line)) is not None]
    try:
        record = _record(path, len(lines) + 1, last)
    except SessionFileError as error:
        logger.warning("%s: the line has no end, most likely after a crash, and was left out", error)
        return records
    return records if record is None else [*records, record]


def write_jsonl(path: StrPath, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file by these objects, one per line, making the folders above it.

    Raises TypeError or ValueError for what JSON cannot hold, and OSError; the file is then unchanged.
    """
    lines = [json.dumps(dict(record), ensure_ascii=False, allow_nan=False) for record in records]
    target = Path(path)
    make_private(target.parent)
    # Text that is not Unicode has surrogates: their backslash form is the one of JSON, and is read back as it was.
    replace_file(target, "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))


# -- for the other modules --


def existing(session_dir: StrPath) -> Path:
    """Return the folder of a session, which is there; raises FileNotFoundError."""
    folder = Path(session_dir)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no session in {folder}: it is no folder")
    return folder


def folder_of(transcript: StrPath) -> Path:
    """Return the folder of a session that is named by itself or by its transcript; raises FileNotFoundError."""
    path = Path(transcript)
    return existing(path.parent if path.name == TRANSCRIPT and not path.is_dir() else path)


def stored_history(folder: Path) -> History:
    """Return the conversation in a folder, empty if it has no transcript yet.

    Raises SessionFileError if neither the transcript nor its backup has a message, HistoryError as `load_history` does.
    """
    history = load_history(folder)
    if history.source == "empty" and (folder / TRANSCRIPT).exists():
        raise SessionFileError(f"{'; '.join(history.problems)}: restore a copy of the transcript, or delete it")
    return history


def messages_of(
    transcript: StrPath | Sequence[Message], load: Callable[[StrPath], list[Message]] = load_transcript
) -> Sequence[Message]:
    """Return messages that are given, or those of a session; raises as `load_transcript` does."""
    return load(transcript) if isinstance(transcript, (str, os.PathLike)) else transcript


def without_line(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the number of its line: the same object if it has none."""
    if LINE in message or not isinstance(message, dict):
        return {key: value for key, value in message.items() if key != LINE}
    return message


def _history(session_dir: StrPath) -> History:
    folder = folder_of(session_dir)
    history = stored_history(folder)
    for problem in history.problems if history.source != "empty" else ():
        logger.warning(problem)
    return history


def _record(path: StrPath, number: int, line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise SessionFileError(f"{os.fspath(path)}:{number} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise SessionFileError(f"{os.fspath(path)}:{number} is not a JSON object, but a {type(record).__name__}")
    return record
