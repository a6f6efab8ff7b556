"""Export a session: as a document to read, as data, or as an archive of its folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.sessions.metadata import Scrub, SessionSummary, default_scrub, load_metadata
from amplifier_foundation.sessions.transcript import message_parts
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    import tarfile

__all__ = ["ExportError", "ExportFormat", "Exported", "export"]

ExportFormat = Literal["md", "json", "jsonl", "tar.gz"]
_FORMATS = get_args(ExportFormat)
#: Locks and temporary files are not archived.
_LEFT_OUT = (".lock", ".tmp")

Message = Mapping[str, Any]


class ExportError(FoundationError):
    """A session cannot be exported; nothing was written."""

    code = "export_failed"


class Exported(NamedTuple):
    """The file that was written, and what is missing in it."""

    path: Path
    bytes: int
    warnings: tuple[str, ...] = ()


def export(
    session: SessionSummary,
    target: Path,
    format: ExportFormat | None = None,
    *,
    overwrite: bool = False,
    scrub: Scrub | None = None,
) -> Exported:
    """Write a session to the file `target`, or into the folder `target` under its id.

    `md` is for reading, `json` has metadata and messages, `jsonl` only the messages, one per line; in all three,
    secrets are masked by `scrub`, or by `default_scrub()`. `tar.gz` has the folder as it is. The default format is the
    suffix of `target`. The file appears when it is complete; an existing one is kept unless `overwrite`.

    Raises ExportError if the file exists or cannot be written, and HistoryError if the messages cannot be read.
    """
    chosen = format or _format_of(target)
    if chosen not in _FORMATS:
        raise ExportError(f"unknown export format {chosen!r}: {did_you_mean(chosen, list(_FORMATS))}")
    path = target / f"{session.id}.{chosen}" if target.is_dir() else target
    if path.exists() and not overwrite:
        raise _exists(path)
    if chosen == "tar.gz":
        warnings: list[str] = []
        size = _publish(path, lambda file: _write_archive(file, session, warnings), overwrite)
    else:
        content, warnings = _rendered(session, chosen, scrub or default_scrub())
        size = _publish(path, lambda file: file.writelines([content]), overwrite)
    return Exported(path, size, tuple(warnings))


def _format_of(target: Path) -> str:
    for known in _FORMATS:
        if target.name.endswith(f".{known}") and not target.is_dir():
            return str(known)
    raise ExportError(f"{target}: unknown format: give one of {', '.join(_FORMATS)}")


# -- documents --


def _rendered(session: SessionSummary, format: str, scrub: Scrub) -> tuple[bytes, list[str]]:
    from amplifier_foundation.sessions.transcript import load_history

    history = load_history(session.folder)
    metadata = load_metadata(session.folder)
    problems = [*history.problems, *(text for text in (metadata.damaged, metadata.warning) if text)]
    messages = [scrub(message) for message in history.messages]
    if format == "jsonl":
        text = "".join(f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages)
    elif format == "json":
        document = {
            "schema": {"name": "amplifier.session", "ver": "1.0.0"},
            "session_id": session.id,
            "metadata": scrub(metadata.data),
            "messages": messages,
        }
        text = f"{json.dumps(document, ensure_ascii=False, indent=2)}\n"
    else:
        text = "\n".join(_document(session, messages, scrub))
    return text.encode("utf-8", "replace"), problems


def _document(session: SessionSummary, messages: list[Message], scrub: Scrub) -> Iterator[str]:
    title = session.name or session.first_prompt or session.id
    yield f"# {scrub(title)}\n"
    facts = {
        "Session": f"`{session.id}`",
        "Project": session.project and f"`{session.project}`",
        "Bundle": session.bundle,
        "Model": session.model,
        "Started": session.created and session.created.isoformat(timespec="seconds"),
        "Last active": session.updated.isoformat(timespec="seconds"),
        "Turns": session.turn_count or None,
        "Parent": session.parent_id and f"`{session.parent_id}`",
        "About": session.description and scrub(session.description),
    }
    yield "".join(f"- {label}: {value}\n" for label, value in facts.items() if value)
    for message in messages:
        yield from _section(message)


def _section(message: Message) -> Iterator[str]:
    role = str(message.get("role"))
    metadata = message.get("metadata")
    stamped = metadata.get("timestamp") if isinstance(metadata, dict) else None
    named = f"Result of {message.get('name') or 'a tool'}" if role == "tool" else role.capitalize()
    yield f"## {named}{f' ({stamped})' if stamped else ''}\n"
    parts = message_parts(message)
    for thought in parts.thoughts:
        yield f"*Thinking:*\n\n{_fenced(thought)}"
    if role == "tool":
        yield _fenced(_readable(_content(parts.content)))
    elif text := _content(parts.content).strip():
        yield f"{text}\n"
    for name, given in parts.calls:
        yield f"*Calls `{name}`:*\n\n{_fenced(json.dumps(given, ensure_ascii=False, indent=2), 'json')}"


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n\n".join(_block(block) for block in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False, indent=2)


def _readable(result: str) -> str:
    """Return the result of a tool for reading: of a JSON object each value that is set, texts with their lines."""
    try:
        values = json.loads(result)
    except ValueError:
        return result
    if not isinstance(values, dict):
        return result
    lines = []
    for name, value in values.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(f"{name}:\n{value.rstrip()}")
        elif value not in ("", None):
            lines.append(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) or result


def _block(block: object) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return _fenced(json.dumps(block, ensure_ascii=False, indent=2), "json")


def _fenced(text: str, language: str = "") -> str:
    """Return a code block with a fence that is longer than any in the text."""
    import re

    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


# -- archives --


def _write_archive(file: IO[bytes], session: SessionSummary, warnings: list[str]) -> None:
    import tarfile

    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        _add_folder(archive, session.folder, session.id, warnings)
        blobs = session.folder / "blobs"
        if blobs.is_symlink() and blobs.is_dir():
            # Blobs that are shared with another session are copied.
            _add_folder(archive, blobs, f"{session.id}/blobs", warnings)


def _add_folder(archive: tarfile.TarFile, folder: Path, name: str, warnings: list[str]) -> None:
    for parent, folders, files in os.walk(folder):
        folders.sort()
        inner = os.path.relpath(parent, folder)
        for entry in sorted(files):
            path = Path(parent, entry)
            if entry.endswith(_LEFT_OUT):
                continue
            if path.is_symlink() or not path.is_file():
                warnings.append(f"{path} is left out: it is not a regular file")
                continue
            archive.add(path, os.path.normpath(f"{name}/{inner}/{entry}"), recursive=False)


# -- atomic writing --


def _publish(path: Path, write: Callable[[IO[bytes]], None], overwrite: bool) -> int:
    fresh = path.with_name(f".{path.name[:100]}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
    try:
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                write(file)
                size = file.tell()
            if overwrite:
                os.replace(fresh, path)
            else:
                _put_new(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise ExportError(
            f"{path} cannot be written: {error.strerror or error} ({error.filename or path}). Nothing was exported"
        ) from error
    return size


def _put_new(fresh: Path, path: Path) -> None:
    """Rename a file, unless the new name exists; raises FileExistsError."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(fresh, path)


def _exists(path: Path) -> ExportError:
    return ExportError(f"{path} exists already: give another file, or allow to overwrite it")
