"""Where rules are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amplifier_foundation.paths import Home

POLICY_FILE: Final = "policy.yaml"
LOCAL_POLICY_FILE: Final = "policy.local.yaml"


def policy_files(home: Home, project: Path, session: Path | None) -> tuple[Path, ...]:
    """Return the files that rules may be in: the user's, the project's two, and the session's if there is one."""
    folder = project / ".amplifier"
    files = (home.path / POLICY_FILE, folder / POLICY_FILE, folder / LOCAL_POLICY_FILE)
    return files if session is None else (*files, session / POLICY_FILE)
