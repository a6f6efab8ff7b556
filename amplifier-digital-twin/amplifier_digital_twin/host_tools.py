"""Programs of the host that a universe may use, because they bring everything they need with them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base

#: Those that run anywhere as one file; others must be part of the base.
_PORTABLE: Final = ("uv",)
_ELF: Final = b"\x7fELF"
_RELEASE: Final = Path("/usr/lib/os-release")


def portable_tools(base: Base) -> dict[str, Path]:
    """Return the programs of `base.tools` that are copied inside, by name; raise TwinError for a missing one."""
    return {name: _found(name) for name in base.tools if name in _PORTABLE}


def with_packaged_tools(base: Base) -> Base:
    """Return the base with tools that are more than one file as packages; on the host's base they must be there."""
    packaged = tuple(name for name in base.tools if name not in _PORTABLE)
    if base.image == "host":
        for name in packaged:
            if not any((Path(folder) / name).exists() for folder in ("/usr/bin", "/usr/local/bin", "/usr/sbin")):
                raise TwinError(
                    "tool_missing",
                    f"the profile asks for the program `{name}`, which the host does not have below /usr",
                    f"install it on the host (`apt-get install {name}`), or use the base `debian:12`",
                )
        return base
    from dataclasses import replace

    missing = tuple(name for name in packaged if name not in base.packages)
    return replace(base, packages=(*base.packages, *missing))


def host_facts(base: Base) -> str:
    """Return what of the host a provisioned layer may depend on: its tools, and its system where that is the base."""
    facts: list[object] = []
    for name, path in sorted(portable_tools(base).items()):
        status = path.stat()
        facts.append((name, status.st_size, status.st_mtime_ns))
    if base.image == "host":
        facts += [_RELEASE.read_bytes() if _RELEASE.is_file() else b"", os.path.realpath("/usr/bin/python3")]
    return repr(facts)


def _found(name: str) -> Path:
    beside = Path(sys.executable).parent / name
    candidates = [path for path in (str(beside), shutil.which(name)) if path]
    for candidate in map(Path, candidates):
        # A shim of a version manager is a script that leads back to the host.
        if _starts(candidate) == _ELF:
            return candidate.resolve()
    raise TwinError(
        "tool_missing",
        f"the profile asks for the program `{name}`, which is not on the host's path",
        f"install it on the host (`pip install {name}`), or take it out of `base.tools`",
    )


def _starts(path: Path) -> bytes:
    """Return the first bytes of a file; none when there is no such file, or none that this user may read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF))
    except OSError:
        return b""
