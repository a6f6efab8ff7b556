"""Hear every event of one session and hand it to `coordinator.log`, which takes it through redaction to the sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from amplifier_core.events import ALL_EVENTS
from amplifier_kit.log.open_work import TRACKED, OpenWork
from amplifier_module_hooks_logging._config import LogConfig
from amplifier_module_hooks_logging._kept import is_kept
from amplifier_module_hooks_logging._own_log import OwnLog

if TYPE_CHECKING:
    from amplifier_core.hooks import Outcome

logger = logging.getLogger(__name__)

_NAME = "hooks-logging"
#: Names beyond this many are decided anew each time.
_DECIDED = 4096


class Recorder:
    """Record the events of one coordinator, as the settings say."""

    def __init__(self, coordinator: Any, settings: LogConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._listed = frozenset((*ALL_EVENTS, *settings.additional_events))
        self._decided: dict[str, bool] = {}
        self._has_told = False
        self._unregister: Callable[[], None] | None = None
        self._own_log: OwnLog | None = None
        self._unended = OpenWork(_NAME, self._write_end, self._status)

    def start(self) -> None:
        """Register for every event; without a sink of the app's, open a log.

        Raises SessionLogBusy when another process writes that log.
        """
        coordinator = self._coordinator
        if not _app_writes(coordinator):
            log = self._own_log = OwnLog(coordinator, self._settings.session_log_template, verify=self._settings.verify)
            coordinator.add_log_sink(log)
            coordinator.register_cleanup(log.close)
        # After session:end, and before the log is closed: the newest goes first.
        coordinator.register_cleanup(self.end)
        hooks = coordinator.hooks
        if hasattr(hooks, "observe"):
            self._unregister = hooks.observe(self.observe, name=_NAME)
        else:  # a kernel without observers: an event that a hook denies is not heard
            self._unregister = hooks.register("*", self.record, priority=self._settings.priority, name=_NAME)

    def end(self) -> None:
        """Write the end of everything that was begun and never heard to end."""
        if self._unregister is not None:
            self._unended.end()

    def stop(self) -> None:
        """Hear and write nothing any more."""
        if self._unregister is not None:
            self._unregister()
            self._unregister = None
        if self._own_log is not None:
            self._own_log.retire()

    def observe(self, event: str, data: Any, outcome: Outcome) -> None:
        """Log one event with who emitted it and, when a hook denied it, who did so and why."""
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
        """Log one event; answers nothing, so that it changes nothing."""
        if self._is_wanted(event):
            self._record(event, _fields(data))

    def _record(self, event: str, fields: dict[str, Any]) -> None:
        if event in TRACKED and not self._unended.note(event, fields):
            return
        if self._settings.strip_raw:
            fields.pop("raw", None)
        if "event" in fields:
            # The one name that `coordinator.log` keeps to itself.
            fields["event_"] = fields.pop("event")
        self._coordinator.log(_level(event, fields, "INFO"), "", event=event, **fields)

    def _write_end(self, event: str, fields: dict[str, Any]) -> None:
        if self._is_wanted(event):
            level = _level(event, fields, "WARNING")
            self._coordinator.log(level, event=event, component="hook", module=_NAME, **fields)

    def _status(self) -> str:
        """Return how the session stands."""
        if self._coordinator.cancellation.is_cancelled:
            return "cancelled"
        return str(getattr(getattr(self._coordinator.session, "status", None), "status", "incomplete"))

    def _is_wanted(self, event: str) -> bool:
        wanted = self._decided.get(event)
        return self._decide(event) if wanted is None else wanted

    def _decide(self, event: str) -> bool:
        settings = self._settings
        covering = [pattern for pattern in settings.exclude_events if fnmatchcase(event, pattern)]
        if is_kept(event):
            wanted = True
            if covering and not self._has_told:
                self._tell(event, covering)
        else:
            wanted = not covering and (settings.auto_discover or event in self._listed)
        if len(self._decided) < _DECIDED:
            self._decided[event] = wanted
        return wanted

    def _tell(self, event: str, patterns: list[str]) -> None:
        """Say, once, that patterns cover what is recorded all the same."""
        self._has_told = True
        message = (
            f"exclude_events {patterns} covers {event!r}, which is recorded nevertheless: the events are the audit; "
            "leave out others, such as 'content_block:*'"
        )
        self._coordinator.log("WARNING", message, component="hook", module=_NAME)
        if not self._coordinator.parent_id:  # the config of a child is its parent's
            logger.warning("hooks-logging: %s", message)


def _fields(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {} if data is None else {"value": data}


def _app_writes(coordinator: Any) -> bool:
    """Tell whether somebody other than this module takes the records."""
    return any(not isinstance(sink, OwnLog) for sink in coordinator.log_sinks)


def _level(event: str, fields: dict[str, Any], usual: str) -> Any:
    """Take the level out of an event's fields, or return the usual one; events named after errors are an ERROR.

    The record itself makes an ERROR of a status or key that says so. DEBUG stays DEBUG.
    """
    level = fields.pop("lvl", None) or usual
    return "ERROR" if "error" in event and level != "DEBUG" else level
