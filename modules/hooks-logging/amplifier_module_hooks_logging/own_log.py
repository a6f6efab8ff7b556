"""Write the log of a session whose app writes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_kit.guard.control_files import refuse_control_file
from amplifier_kit.guard.files.configured_file import RefusedFileError, configured_folder, project_of
from amplifier_kit.home import TEMPLATE, amplifier_home, log_path
from amplifier_kit.log.writer import SessionLog


class OwnLog:
    """A log sink that writes to the session's own file, from the first record to those of the last cleanup."""

    def __init__(self, coordinator: Any, template: str | None, *, verify: bool = False) -> None:
        """Open the log; raises SessionLogBusy, and ValueError for a template that cannot be filled in.

        Raises OSError for a path that leads through a link out of the project, to a link, or to a control file.
        """
        self._coordinator = coordinator
        self._path = _path_of(coordinator, template, coordinator.session_id)
        self._blobs = _parents_blobs(coordinator, template)
        self._project = project_of(coordinator) if template is not None else None
        self._verify = verify
        self._retired = False
        self._log: SessionLog | None = self._opened()

    def __call__(self, record: dict[str, Any]) -> None:
        """Write one record; after `close` the log is reopened for it, since other modules may still clean up."""
        if self._retired or not record.get("session_id"):
            return
        if self._log is not None:
            self._log.write(record)
            return
        with self._opened() as log:
            log.write(record)

    def close(self) -> None:
        """Force the log to disk and release it."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def retire(self) -> None:
        """Close, and ignore all further records."""
        self._retired = True
        self.close()

    def _opened(self) -> SessionLog:
        refuse_control_file(self._path, self._coordinator)
        folder = self._path.parent
        if self._project is not None:
            folder = configured_folder(folder, self._project)
            if (folder / self._path.name).is_symlink():
                raise RefusedFileError(f"{self._path} is a link, and logs are never written through a link: remove it")
        return SessionLog(folder, name=self._path.name, blobs=self._blobs, verify=self._verify)


def _path_of(coordinator: Any, template: str | None, session_id: str) -> Path:
    folder = coordinator.get_capability("session.dir")
    if template is None and folder:
        own = Path(folder)
        return (own if session_id == coordinator.session_id else own.parent / session_id) / "events.jsonl"
    home = coordinator.get_capability("amplifier.home")
    return log_path(
        template or TEMPLATE,
        home=Path(home) if home else amplifier_home(),
        project=coordinator.get_capability("session.working_dir") or Path.cwd(),
        session_id=session_id,
    )


def _parents_blobs(coordinator: Any, template: str | None) -> Path | None:
    """Return the blob folder of the parent session, which is, or links to, the root's; None for a root."""
    if not coordinator.parent_id:
        return None
    return _path_of(coordinator, template, coordinator.parent_id).parent / "blobs"
