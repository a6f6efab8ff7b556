"""A wheel on the host: what it says it is, and what it holds."""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.index_pages import normalized

#: Metadata larger than this are no metadata.
_MAX_TEXT: Final = 64 * 1024 * 1024
#: What a file that is no wheel makes of whoever reads it.
_UNREADABLE: Final = (OSError, zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True)
class WheelFile:
    """A wheel, looked into."""

    path: Path
    name: str
    version: str
    requires_python: str | None
    metadata: bytes
    #: Path in the wheel → hash as RECORD writes it (`sha256=…`), empty for RECORD itself.
    record: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> WheelFile:
        """Look into a wheel; raise TwinError (`wheel_invalid`) when it is none, or its parts contradict each other."""
        parts = path.name.removesuffix(".whl").split("-")
        if not path.name.endswith(".whl") or len(parts) not in (5, 6):
            raise _invalid(path, "a wheel is named name-version-python-abi-platform.whl")
        try:
            with zipfile.ZipFile(path) as archive:
                folder = _info_folder(path, archive)
                metadata = _text(path, archive, f"{folder}/METADATA")
                record = _text(path, archive, f"{folder}/RECORD")
        except _UNREADABLE as error:
            raise _invalid(path, f"it cannot be read: {error}") from error
        headers = BytesHeaderParser().parsebytes(metadata)
        name, version = str(headers["Name"] or ""), str(headers["Version"] or "")
        if normalized(name) != normalized(parts[0]):
            raise _invalid(path, f"its metadata name {name!r}")
        needed = headers["Requires-Python"]
        return cls(path, normalized(name), version, str(needed) if needed else None, metadata, parse_record(record))


def check_wheel(path: Path, name: str) -> WheelFile:
    """Return a wheel that must be one of a package; raise TwinError (`wheel_mismatch`, `wheel_invalid`)."""
    wheel = WheelFile.read(path)
    if wheel.name != normalized(name):
        raise TwinError(
            "wheel_mismatch",
            f"{path} is a wheel of {wheel.name}, not of {normalized(name)}",
            "correct the name or the wheel under `packages` in the profile",
        )
    return wheel


def read_metadata(path: Path) -> bytes:
    """Return the metadata of a wheel, whatever its file is called; raise TwinError (`wheel_invalid`)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _text(path, archive, f"{_info_folder(path, archive)}/METADATA")
    except _UNREADABLE as error:
        raise _invalid(path, f"it cannot be read: {error}") from error


def parse_record(content: bytes) -> dict[str, str]:
    """Return what RECORD lists: path → hash."""
    rows = csv.reader(io.StringIO(content.decode("utf-8", "replace")))
    try:
        return {row[0]: row[1] if len(row) > 1 else "" for row in rows if row}
    except csv.Error:
        return {}  # nothing that it lists can be believed


def _info_folder(path: Path, archive: zipfile.ZipFile) -> str:
    folders = {name.partition("/")[0] for name in archive.namelist() if name.partition("/")[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise _invalid(path, f"it has {len(folders)} .dist-info folders")
    return folders.pop()


def _text(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MAX_TEXT:
        raise _invalid(path, f"{name} is too large")
    return archive.read(name)


def _invalid(path: Path, why: str) -> TwinError:
    return TwinError("wheel_invalid", f"{path} is no usable wheel: {why}", "build it again")
