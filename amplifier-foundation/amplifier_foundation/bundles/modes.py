"""Check the mode files of a bundle: Markdown whose front matter describes a mode under `mode`."""

from __future__ import annotations

from pathlib import Path

from amplifier_foundation.documents import read_document
from amplifier_foundation.errors import DocumentError
from amplifier_kit.modes import check_mode


def check_mode_files(folder: Path) -> list[str]:
    """Return a warning, with file and line, for each mistake in the mode files of a folder."""
    warnings: list[str] = []
    for path in sorted(folder.glob("*.md")) if folder.is_dir() else ():
        try:
            document = read_document(path)
        except DocumentError as error:
            warnings.append(str(error))
            continue
        if "mode" not in document.data:
            warnings.append(f"{document.where()}: the file describes no mode: it has no 'mode'")
            continue
        problems = check_mode(document.data["mode"])
        warnings += [f"{document.where('mode', *problem.keys)}: {problem.text}" for problem in problems]
    return warnings
