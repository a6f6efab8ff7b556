"""Where sessions are stored: `$AMPLIFIER_HOME/projects/<slug>/sessions/<id>/events.jsonl`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: The default path of a session's log; `~/.amplifier` means the home folder, wherever that is.
TEMPLATE = "~/.amplifier/projects/{project}/sessions/{session_id}/events.jsonl"

_HOME = "~/.amplifier"
#: The most bytes that file systems allow for one name.
_LONGEST_NAME = 255


def amplifier_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of a user's Amplifier files: `$AMPLIFIER_HOME`, else `~/.amplifier`."""
    given = (os.environ if environ is None else environ).get("AMPLIFIER_HOME")
    return Path(given).expanduser() if given else Path.home() / ".amplifier"


def project_slug(project: Path | str) -> str:
    """Return the name of a project's folder: its path with dashes, `/home/ada/app` → `-home-ada-app`.

    A path that is too long for a name becomes a hash and its end.
    """
    slug = str(Path(project).resolve()).replace("/", "-").replace("\\", "-").replace(":", "")
    slug = slug if slug.startswith("-") else f"-{slug}"
    name = os.fsencode(slug)
    if len(name) <= _LONGEST_NAME:
        return slug
    import hashlib

    return f"-{hashlib.sha256(name).hexdigest()[:16]}-{name[-_LONGEST_NAME // 2 :].decode('utf-8', 'ignore')}"


def log_path(template: str, *, home: Path, project: Path | str, session_id: str) -> Path:
    """Return the path of a session's log; `~/.amplifier` at the start of a template means `home`.

    Raises ValueError for a template with other names in braces than `project` and `session_id`.
    """
    safe = session_id.replace("/", "-").replace("\\", "-").lstrip(".") or "-"
    try:
        text = template.format(project=project_slug(project), session_id=safe)
    except (KeyError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The log template {template!r} cannot be filled in ({error!r}): "
            "only {project} and {session_id} may be in braces"
        ) from error
    if text == _HOME or text.startswith(f"{_HOME}/"):
        return home / text[len(_HOME) + 1 :]
    return Path(text).expanduser()
