"""Make `./` and `../` in settings absolute while it is known which file has them.

They are looked for beside the settings file, then, for files of a project, in the project's own folder. A path in the
user's settings never leads into whatever project the program happens to run in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.merge import ANY

#: Places whose texts may be paths.
_PLACES: Final = (
    ("bundle", "active"),
    ("bundle", "app", ANY),
    ("bundle", "added", ANY),
    ("sources", ANY, ANY),
    ("overrides", ANY, "source"),
    ("config", "providers", ANY, "source"),
    ("modules", ANY, ANY, "source"),
)


def anchored(data: Mapping[str, Any], file: Path, project: Path | None) -> dict[str, Any]:
    """Return a copy of checked settings with absolute paths; one that is found nowhere is where a project would be."""
    folders = [file.parent, *([project] if project is not None else [])]
    fresh: dict[str, Any] = _anchored(data, (), folders)
    return fresh


def _anchored(value: Any, at: tuple[str, ...], folders: list[Path]) -> Any:
    if isinstance(value, Mapping):
        return {key: _anchored(item, (*at, str(key)), folders) for key, item in value.items()}
    if isinstance(value, list):
        return [_anchored(item, (*at, ANY), folders) for item in value]
    if isinstance(value, str) and value.startswith(("./", "../")) and _may_be_path(at):
        found = [folder / value for folder in folders]
        return str(next((path for path in found if path.exists()), found[-1]).resolve())
    return value


def _may_be_path(at: tuple[str, ...]) -> bool:
    return any(
        len(at) == len(place) and all(want in (ANY, key) for want, key in zip(place, at, strict=True))
        for place in _PLACES
    )
