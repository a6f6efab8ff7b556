"""Hear every event of one session and hand it to `coordinator.log`, which takes it through redaction to the sinks."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from amplifier_core.events import ALL_EVENTS
from amplifier_module_hooks_logging._own_log import OwnLog
from amplifier_module_hooks_logging._settings import Settings

_NAME = "hooks-logging"
#: Names beyond this many are decided anew each time.
_DECIDED = 4096


class Recorder:
    """Record the events of one coordinator, as the settings say."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._listed = frozenset((*ALL_EVENTS, *settings.additional_events))
        self._decided: dict[str, bool] = {}
        self._unregister: Callable[[], None] | None = None
        self._own_log: OwnLog | None = None

    def start(self) -> None:
        """Register for every event; without a sink of the app's, open a log.

        Raises SessionLogBusy when another process writes that log.
        """
        coordinator = self._coordinator
        if not _app_writes(coordinator):
            log = self._own_log = OwnLog(coordinator, self._settings.session_log_template)
            coordinator.add_log_sink(log)
            coordinator.register_cleanup(log.close)
        self._unregister = coordinator.hooks.register("*", self.record, priority=self._settings.priority, name=_NAME)

    def stop(self) -> None:
        """Hear and write nothing any more."""
        if self._unregister is not None:
            self._unregister()
        if self._own_log is not None:
            self._own_log.retire()

    def record(self, event: str, data: Any) -> None:
        """Log one event; answers nothing, so that it changes nothing."""
        wanted = self._decided.get(event)
        if wanted is None:
            wanted = self._decide(event)
        if not wanted:
            return
        fields = data if isinstance(data, dict) else {} if data is None else {"value": data}
        if self._settings.strip_raw:
            fields.pop("raw", None)
        if "event" in fields:
            # The one name that `coordinator.log` keeps to itself.
            fields["event_"] = fields.pop("event")
        self._coordinator.log("INFO", "", event=event, **fields)

    def _decide(self, event: str) -> bool:
        settings = self._settings
        excluded = any(fnmatchcase(event, pattern) for pattern in settings.exclude_events)
        wanted = not excluded and (settings.auto_discover or event in self._listed)
        if len(self._decided) < _DECIDED:
            self._decided[event] = wanted
        return wanted


def _app_writes(coordinator: Any) -> bool:
    """Tell whether somebody other than this module takes the records."""
    return any(not isinstance(sink, OwnLog) for sink in coordinator.log_sinks)
