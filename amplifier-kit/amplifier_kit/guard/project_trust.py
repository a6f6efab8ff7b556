"""Whether a module may use the files of a project that steer a session: its modes, commands and matrices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.files.configured_file import project_of
from amplifier_kit.home import amplifier_home

__all__ = ["is_project_trusted", "project_around"]


def project_around(coordinator: Any, folder: Path) -> Path | None:
    """Return the project if a folder is in it, or seems to be; None for others.

    What is in the user's home is the user's, even if the home is in the project.
    """
    project = project_of(coordinator)
    real, real_project = Path(os.path.realpath(folder)), Path(os.path.realpath(project))
    home = os.path.realpath(str(coordinator.get_capability("amplifier.home") or amplifier_home()))
    is_inside = real.is_relative_to(real_project) or folder.is_relative_to(project)
    return real_project if is_inside and not real.is_relative_to(home) else None


def is_project_trusted(coordinator: Any) -> bool:
    """Return whether the user trusts the project; where no app knows of trust, its user has decided."""
    ask = coordinator.get_capability("project.is_trusted")
    return ask is None or plain_result(ask()) is True
