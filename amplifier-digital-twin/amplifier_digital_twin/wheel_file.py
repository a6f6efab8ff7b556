"""A wheel on the host: what it says it is, and what it puts where."""

from __future__ import annotations

import base64
import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from amplifier_digital_twin.errors import TwinError


@dataclass(frozen=True)
class WheelFile:
    """A wheel, looked into."""

    path: Path
    #: Normalized.
    name: str
    version: str
    #: What an installer puts into the site directory: path → `sha256=…` of the content, as RECORD writes it.
    contents: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> WheelFile:
        """Look into a wheel; raises TwinError (`wheel_invalid`) when it is none, or its parts contradict each other."""
        headers = BytesHeaderParser().parsebytes(read_metadata(path))
        name, version = canonicalize_name(str(headers["Name"] or "")), str(headers["Version"] or "")
        try:
            named = parse_wheel_filename(path.name)[0]
            with zipfile.ZipFile(path) as archive:
                contents = _contents(archive)
        except (InvalidWheelFilename, OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise _invalid(path, error) from error
        if name != named:
            raise _invalid(path, f"its metadata name {name!r}")
        return cls(path, name, version, contents)


def check_wheel(path: Path, name: str) -> WheelFile:
    """Return a wheel that must be one of a package; raises TwinError (`wheel_mismatch`, `wheel_invalid`)."""
    wheel, wanted = WheelFile.read(path), canonicalize_name(name)
    if wheel.name != wanted:
        said = f"{path} is a wheel of {wheel.name}, not of {wanted}"
        raise TwinError("wheel_mismatch", said, "correct the name or the wheel under `packages` in the profile")
    return wheel


def read_metadata(path: Path) -> bytes:
    """Return the metadata of a wheel, whatever its file is called; raises TwinError (`wheel_invalid`)."""
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = [name for name in archive.namelist() if _is_metadata(name)]
            return archive.read(name)
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise _invalid(path, error) from error


def _is_metadata(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder.endswith(".dist-info") and rest == "METADATA"


def _contents(archive: zipfile.ZipFile) -> dict[str, str]:
    found = {}
    for info in archive.infolist():
        first, _, rest = info.filename.partition("/")
        path = info.filename
        if first.endswith(".data"):
            kind, _, path = rest.partition("/")
            if kind not in ("purelib", "platlib"):
                continue  # programs and data go beside the site directory, and are rewritten for their place
        elif first.endswith(".dist-info") and rest.startswith("RECORD"):
            continue  # installers write it anew; so do its signatures
        if not info.is_dir():
            digest = hashlib.sha256(archive.read(info)).digest()
            found[path] = f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
    return found


def _invalid(path: Path, why: object) -> TwinError:
    return TwinError("wheel_invalid", f"{path} is not a usable wheel: {why}", "build it again")
