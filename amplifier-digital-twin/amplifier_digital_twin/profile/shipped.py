"""The profiles that come with the program."""

from __future__ import annotations

from pathlib import Path

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.errors import did_you_mean

_FOLDER = Path(__file__).parent.parent / "profiles"
_SUFFIXES = (".yaml", ".yml")


def shipped_names() -> list[str]:
    """Return the names of the shipped profiles."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def shipped(name: str) -> Path:
    """Return the file of a shipped profile; raise TwinError for a name there is none of."""
    if name in shipped_names():
        return _FOLDER / f"{name}.yaml"
    known = shipped_names()
    raise TwinError(
        "profile_unknown",
        f"{name}: there is no file and no shipped profile of this name",
        f"give the path of a profile, or the name of a shipped one: {did_you_mean(name, known) if known else 'none'}",
    )


def is_shipped(path: Path) -> bool:
    """Tell whether a file is one of the shipped profiles."""
    return path.parent == _FOLDER


def locate(path_or_name: str) -> Path:
    """Return the file that is meant: a path when it looks like one, else a shipped profile. Raises TwinError."""
    path = Path(path_or_name)
    if path_or_name in shipped_names():
        return shipped(path_or_name)
    if "/" not in path_or_name and path.suffix not in _SUFFIXES and not path.is_file():
        return shipped(path_or_name)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "there is no such file"
        raise TwinError("profile_unknown", f"{path}: {what}", f"give a profile's file, or one of: {_all()}")
    return path.absolute()


def _all() -> str:
    return ", ".join(shipped_names()) or "(none is shipped)"
