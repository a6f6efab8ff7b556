"""The user's word that a project is trusted for one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from amplifier_foundation.trust.control_files import ControlFileError, control_file_hashes


@dataclass(frozen=True)
class GivenTrust:
    """Trust in a project as its control files were when it was given: it ends when one comes, changes or goes.

    A run would else be trusted for what it has written itself.
    """

    project: Path
    #: The hash of each control file; None when they could not be read, and then nothing is trusted.
    files: Mapping[str, str] | None
    #: What counts besides the files that count in every project, relative to it.
    covers: tuple[str, ...] = ()

    @classmethod
    def of(cls, project: Path, given: bool | GivenTrust | None, code: Iterable[Path] = ()) -> GivenTrust | None:
        """Return trust in a project as it is now, or that which was given before; None for none. Never raises.

        `code` are files and folders of the project that count besides those that count in every one.
        """
        if given is not True:
            return given or None
        real = project.resolve()
        covers = tuple(sorted(path.relative_to(real).as_posix() for path in code if path.is_relative_to(real)))
        return cls(project, _hashes(project, covers), covers)

    @property
    def holds(self) -> bool:
        """Whether the project is still what was trusted."""
        return self.files is not None and _hashes(self.project, self.covers) == self.files


def _hashes(project: Path, covers: tuple[str, ...]) -> dict[str, str] | None:
    try:
        return control_file_hashes(project.resolve(), covers)
    except (ControlFileError, OSError):
        return None  # nobody can say what is trusted, so that nothing is
