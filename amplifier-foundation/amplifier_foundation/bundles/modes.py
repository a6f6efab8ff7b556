"""Check the mode files of a bundle: Markdown whose front matter describes a mode under `mode`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_foundation.documents import read_document
from amplifier_foundation.errors import DocumentError
from amplifier_foundation.shapes import Keys, Problems, Shape, anything, fields, list_of, mapping, text

_TEXTS: Final = list_of(text, "a list of texts")


def check_mode_files(folder: Path) -> list[str]:
    """Return a warning, with file and line, for each mistake in the mode files of a folder; none if there is none."""
    warnings: list[str] = []
    for path in sorted(folder.glob("*.md")) if folder.is_dir() else ():
        try:
            document = read_document(path)
        except DocumentError as error:
            warnings.append(str(error))
            continue
        problems = Problems(document.where)
        if "mode" not in document.data:
            problems.fault((), "the file describes no mode: it has no 'mode'")
        else:
            _MODE(document.data["mode"], ("mode",), problems)
        warnings += [*problems.faults, *problems.warnings]
    return warnings


def _default(value: Any, at: Keys, problems: Problems) -> None:
    problems.expect(value in ("allow", "block"), "'allow' or 'block'", value, at)


def _yes_or_no(value: Any, at: Keys, problems: Problems) -> None:
    problems.expect(isinstance(value, bool), "true or false", value, at)


_FIELDS: Final[Mapping[str, Shape]] = {
    "name": text,
    "description": text,
    "shortcut": anything,
    "tools": fields(dict.fromkeys(("safe", "warn", "confirm", "block"), _TEXTS)),
    "default_action": _default,
    "allowed_transitions": _TEXTS,
    "allow_clear": _yes_or_no,
    "advertised": _yes_or_no,
    "contributes": fields({"agents": mapping, "context": anything, "skills": anything}),
}
_MODE: Final = fields(_FIELDS)
