"""Write the events of a session to its log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core.events import ALL_EVENTS
from amplifier_kit.guard.control_files import refuse_control_file
from amplifier_kit.guard.files.configured_file import RefusedFileError, configured_folder, project_of
from amplifier_kit.home import TEMPLATE, amplifier_home, log_path
from amplifier_kit.log.open_work import TRACKED, OpenWork
from amplifier_kit.log.writer import SessionLog
from amplifier_module_hooks_logging.config import LogConfig, is_always_recorded

if TYPE_CHECKING:
    from amplifier_core.hooks import Outcome


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


logger = logging.getLogger(__name__)

_NAME = "hooks-logging"
#: For how many names the decision is cached.
_MAX_DECIDED = 4096


class Recorder:
    """Record the events of one coordinator that the config selects."""

    def __init__(self, coordinator: Any, settings: LogConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._listed = frozenset((*ALL_EVENTS, *settings.additional_events))
        self._decided: dict[str, bool] = {}
        self._has_warned = False
        self._unregister: Callable[[], None] | None = None
        self._own_log: OwnLog | None = None
        self._open_work = OpenWork(_NAME, self._write_end, self._status)

    def start(self) -> None:
        """Register for every event, and open a log unless the app has a log sink.

        Raises SessionLogBusy if another process writes that log.
        """
        coordinator = self._coordinator
        if not _app_writes(coordinator):
            log = self._own_log = OwnLog(coordinator, self._settings.session_log_template, verify=self._settings.verify)
            coordinator.add_log_sink(log)
            coordinator.register_cleanup(log.close)
        # Cleanups run in reverse order: after session:end, and before the log is closed.
        coordinator.register_cleanup(self.end)
        hooks = coordinator.hooks
        if hasattr(hooks, "observe"):
            self._unregister = hooks.observe(self.observe, name=_NAME)
        else:  # a kernel without observers: events that a hook denies are missed
            self._unregister = hooks.register("*", self.record, priority=self._settings.priority, name=_NAME)

    def end(self) -> None:
        """Write the missing ends."""
        if self._unregister is not None:
            self._open_work.end()

    def stop(self) -> None:
        """Stop recording."""
        if self._unregister is not None:
            self._unregister()
            self._unregister = None
        if self._own_log is not None:
            self._own_log.retire()

    def observe(self, event: str, data: Any, outcome: Outcome) -> None:
        """Log one event with its emitter and, if a hook denied it, the hook and its reason."""
        if not self._is_wanted(event):
            return
        fields = _fields(data)
        if outcome.action == "deny":
            fields |= {"status": "denied", "denied_by": outcome.decided_by, "denied_reason": outcome.reason}
        elif outcome.action == "ask_user":
            fields["asked_by"] = outcome.decided_by
        elif outcome.action == "cancelled":
            fields["interrupted"] = True
        fields.setdefault("component", outcome.component)
        fields.setdefault("module", outcome.module)
        self._record(event, fields)

    def record(self, event: str, data: Any) -> None:
        """Log one event; returns None, which changes nothing."""
        if self._is_wanted(event):
            self._record(event, _fields(data))

    def _record(self, event: str, fields: dict[str, Any]) -> None:
        if event in TRACKED and not self._open_work.note(event, fields):
            return
        if self._settings.strip_raw:
            fields.pop("raw", None)
        if "event" in fields:
            # `coordinator.log` has a parameter of this name.
            fields["event_"] = fields.pop("event")
        self._coordinator.log(_level(event, fields, "INFO"), "", event=event, **fields)

    def _write_end(self, event: str, fields: dict[str, Any]) -> None:
        if self._is_wanted(event):
            level = _level(event, fields, "WARNING")
            self._coordinator.log(level, event=event, component="hook", module=_NAME, **fields)

    def _status(self) -> str:
        if self._coordinator.cancellation.is_cancelled:
            return "cancelled"
        return str(getattr(getattr(self._coordinator.session, "status", None), "status", "incomplete"))

    def _is_wanted(self, event: str) -> bool:
        wanted = self._decided.get(event)
        return self._decide(event) if wanted is None else wanted

    def _decide(self, event: str) -> bool:
        settings = self._settings
        covering = [pattern for pattern in settings.exclude_events if fnmatchcase(event, pattern)]
        if is_always_recorded(event):
            wanted = True
            if covering and not self._has_warned:
                self._warn(event, covering)
        else:
            wanted = not covering and (settings.auto_discover or event in self._listed)
        if len(self._decided) < _MAX_DECIDED:
            self._decided[event] = wanted
        return wanted

    def _warn(self, event: str, patterns: list[str]) -> None:
        """Warn once about patterns that cover events of the audit."""
        self._has_warned = True
        message = (
            f"exclude_events {patterns} covers {event!r}, which is always recorded, because it belongs to the audit; "
            "exclude other events, such as 'content_block:*'"
        )
        self._coordinator.log("WARNING", message, component="hook", module=_NAME)
        if not self._coordinator.parent_id:  # the config of a child is its parent's
            logger.warning("hooks-logging: %s", message, extra={"is_in_session_log": True})


def _fields(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {} if data is None else {"value": data}


def _app_writes(coordinator: Any) -> bool:
    """Return whether the app has a log sink."""
    return any(not isinstance(sink, OwnLog) for sink in coordinator.log_sinks)


def _level(event: str, fields: dict[str, Any], usual: str) -> Any:
    """Remove the level from an event's fields and return it, or the usual one; events named after errors are ERROR.

    `coordinator.log` raises the level for an error status or key. DEBUG stays DEBUG.
    """
    level = fields.pop("lvl", None) or usual
    return "ERROR" if "error" in event and level != "DEBUG" else level
