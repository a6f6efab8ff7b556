"""Notify a person of the end of a turn: when that is worth it, and what it says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from amplifier_core.data import describe
from amplifier_core.events import ORCHESTRATOR_COMPLETE, PROMPT_COMPLETE, PROMPT_SUBMIT, PROVIDER_REQUEST, SESSION_END
from amplifier_kit.engine.tasks import cancel_and_wait, start
from amplifier_kit.named_tuple import NamedTuple

__all__ = ["TurnNotice", "TurnNotifier"]

logger = logging.getLogger(__name__)

#: Seconds that a notification may still take when the session ends.
_END_SECONDS: Final = 5.0


class TurnNotice(NamedTuple):
    """What a person is told of one turn; without secrets and control characters."""

    #: The name of the project's folder.
    project: str
    #: The beginning of the answer, on one line.
    preview: str
    #: How often the model was asked.
    iterations: int
    status: str


class TurnNotifier:
    """Send a notice of every turn of a session that a person waits for, in the background.

    Child sessions, and turns in the middle of the work on a goal, are left out. A notification that fails is logged.
    """

    def __init__(
        self,
        coordinator: Any,
        send: Callable[[TurnNotice], Awaitable[None]],
        *,
        name: str,
        priority: int,
        min_iterations: int = 1,
    ) -> None:
        self._coordinator = coordinator
        self._send = send
        self._name = name
        self._min_iterations = min_iterations
        self._preview = ""
        self._iterations = 0
        self._running: set[asyncio.Task[None]] = set()
        handlers = (
            (PROMPT_SUBMIT, self._on_start),
            (PROVIDER_REQUEST, self._on_request),
            (PROMPT_COMPLETE, self._on_answer),
            (ORCHESTRATOR_COMPLETE, self._on_complete),
            (SESSION_END, self._on_end),
        )
        register = coordinator.hooks.register
        self._registrations = [register(event, handler, priority=priority, name=name) for event, handler in handlers]

    def unregister(self) -> None:
        """Remove the handlers."""
        for unregister in self._registrations:
            unregister()

    def _on_start(self, event: str, data: Any) -> None:
        self._preview, self._iterations = "", 0

    def _on_request(self, event: str, data: Any) -> None:
        self._iterations += 1

    def _on_answer(self, event: str, data: Any) -> None:
        self._preview = str(data.get("response_preview") or "") if isinstance(data, Mapping) else ""

    async def _on_complete(self, event: str, data: Any) -> None:
        given = data if isinstance(data, Mapping) else {}
        is_wanted = self._coordinator.parent_id is None and given.get("goal_final") is not False
        if not is_wanted or self._iterations < self._min_iterations:
            return
        task = start(self._deliver, self._notice(str(given.get("status") or "")))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _notice(self, status: str) -> TurnNotice:
        from amplifier_kit.guard.files.configured_file import project_of
        from amplifier_kit.guard.redaction.redactor import process_redactor

        text = process_redactor().scrub_text(self._preview)
        preview = "".join(character for character in " ".join(text.split()) if character.isprintable())
        project = "".join(character for character in project_of(self._coordinator).name if character.isprintable())
        return TurnNotice(project, preview, self._iterations, status)

    async def _deliver(self, notice: TurnNotice) -> None:
        try:
            await self._send(notice)
        except Exception as error:  # whatever happens to a notification, the session goes on
            logger.warning("%s: the notification was not sent: %s", self._name, describe(error))

    async def _on_end(self, event: str, data: Any) -> None:
        if self._running:
            await asyncio.wait(set(self._running), timeout=_END_SECONDS)
            await cancel_and_wait(*self._running)
