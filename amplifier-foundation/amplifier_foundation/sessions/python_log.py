"""Copy warnings and errors that Python's `logging` reports in a session into the session's log, with tracebacks."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core.trace import current_scope


class PythonLog(logging.Handler):
    """Write the records that code of one session logs; those of other sessions and of the app are not its own."""

    def __init__(self, coordinator: Any) -> None:
        super().__init__(logging.WARNING)
        self._coordinator = coordinator

    def connect(self) -> None:
        logging.getLogger().addHandler(self)

    def disconnect(self) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; it is shown as well if nothing else shows it."""
        self._show_alone(record)
        scope = current_scope()
        is_own = scope is not None and scope.owner is self._coordinator
        if not is_own or getattr(record, "is_in_session_log", False):
            return
        data: dict[str, Any] = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            from amplifier_foundation.tracebacks import error_record

            data["error"] = error_record(error)
        try:
            self._coordinator.log(record.levelname, record.getMessage(), **data)
        except Exception:
            self.handleError(record)

    def _show_alone(self, record: logging.LogRecord) -> None:
        """Do what Python does without any handler: this one must not make warnings invisible."""
        handlers, shown = logging.getLogger().handlers, logging.lastResort
        if shown is not None and handlers[:1] == [self] and all(isinstance(one, PythonLog) for one in handlers):
            shown.handle(record)
