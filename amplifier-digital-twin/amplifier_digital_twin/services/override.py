"""A file of the host that stands in for a published one: known by its hash at once, looked into when that is needed."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.index_pages import IndexFile
from amplifier_digital_twin.services.link_folder import is_file_of, local_file

if TYPE_CHECKING:
    from amplifier_digital_twin.services.wheel_file import WheelFile


class Override:
    """A wheel or a source archive of one project."""

    def __init__(self, name: str, path: Path) -> None:
        """Hash it; raise TwinError (`wheel_mismatch`) when it is not called as a file of that project is."""
        if not path.name.endswith(".whl") and not is_file_of(path.name, name):
            raise TwinError("wheel_mismatch", f"{path} is no wheel or source archive of {name}", "correct `packages`")
        self.name = name
        self.path = path
        self.file = local_file(path, "")

    @property
    def sha256(self) -> str:
        """Return its hash."""
        return self.file.hashes["sha256"]

    @cached_property
    def wheel(self) -> WheelFile | None:
        """Look into it; None for what is no wheel. Raises TwinError (`wheel_mismatch`, `wheel_invalid`)."""
        from amplifier_digital_twin.services.wheel_file import check_wheel

        return check_wheel(self.path, self.name) if self.path.name.endswith(".whl") else None

    def page_entry(self, url: str) -> IndexFile:
        """Return how a page of the index shows it, to be had at `url`; raises as `wheel` does."""
        wheel = self.wheel
        return dataclasses.replace(self.file, url=url, requires_python=None if wheel is None else wheel.requires_python)
