"""Run one session the way applications do: in a folder of its own, with a log, a rule, and no module missing."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_core.events import MODULE_LOAD_FAILED, TOOL_POST
from amplifier_foundation.bundles import Bundle
from amplifier_foundation.files import replace_file
from amplifier_foundation.paths import sessions_dir
from amplifier_foundation.policy import project_policy
from amplifier_foundation.sessions.transcript import Transcript
from amplifier_kit.log import SessionLog
from amplifier_kit.redaction import Redactor, live_values_from_env, live_values_from_plan

logger = logging.getLogger(__name__)

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT = 30.0
READY_TIMEOUT = 10.0


class ModulesMissingError(Exception):
    """Modules of the plan could not be loaded; `failures` has one line for each.

    `is_fatal` says that the session cannot do without one of them, whatever is allowed.
    """

    def __init__(self, failures: list[str], *, is_fatal: bool = False) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures
        self.is_fatal = is_fatal


class SessionRuntime:
    """One session of a bundle; use it as `async with`, then call `execute()`."""

    def __init__(
        self,
        bundle: Bundle,
        home: Path,
        project: Path,
        *,
        session_id: str | None = None,
        approval_system: Any = None,
        display_system: Any = None,
        environ: Mapping[str, str] = os.environ,
        allow_missing_modules: bool = False,
    ) -> None:
        """Prepare the session; nothing is loaded and no file is made before it is entered."""
        self.bundle = bundle
        self.project = project
        self.session_id = session_id or str(uuid.uuid4())
        self.folder = sessions_dir(home, project) / self.session_id
        self._home = home
        self._allow_missing = allow_missing_modules
        self._failures: list[str] = []
        self._turns = 0
        self._created = datetime.now(UTC).isoformat()
        self._log: SessionLog | None = None
        self._told: set[str] = set()
        #: Whether the session came as far as having a log.
        self.was_opened = False
        plan = {**bundle.plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT}}
        plan["session"] |= bundle.plan.get("session") or {}
        self.redactor = Redactor([*live_values_from_env(environ), *live_values_from_plan(plan)])
        self.session = AmplifierSession(
            plan, session_id=self.session_id, approval_system=approval_system, display_system=display_system
        )
        self._transcript = Transcript(self.folder / "transcript.jsonl", lambda value: self.redactor.scrub(value).value)

    @property
    def log_path(self) -> Path:
        """Return where the session's log lies."""
        return self.folder / "events.jsonl"

    async def __aenter__(self) -> SessionRuntime:
        """Open the log and bring the session up.

        Raises ModulesMissingError, naming all, when a module is missing, SessionLogBusy when another process runs this
        session, and what `AmplifierSession.initialize()` raises. A folder that cannot be written is told on standard
        error by the log, and is no reason to stop.
        """
        self._log = SessionLog(self.folder)
        self.was_opened = True
        try:
            self._connect(self._log)
            await self._initialize()
            self._set_instruction()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def execute(self, prompt: str) -> Any:
        """Run one turn and keep the conversation, however the turn ends."""
        self._turns += 1
        try:
            return await self.session.execute(prompt)
        finally:
            await self._save()

    async def _initialize(self) -> None:
        try:
            await self.session.initialize()
        except RuntimeError as error:
            # The kernel raises for the loop and the context, and reports every other module as an event.
            if error.__cause__ is None or not str(error).startswith("Cannot initialize without"):
                raise
            raise ModulesMissingError([str(error), *self._failures], is_fatal=True) from error
        if self._failures and not self._allow_missing:
            raise ModulesMissingError(self._failures)

    def _connect(self, log: SessionLog) -> None:
        coordinator = self.session.coordinator
        coordinator.add_log_processor(self.redactor)
        coordinator.add_log_sink(log.write)
        coordinator.register_capability("session.working_dir", str(self.project))
        coordinator.register_capability("session.dir", self.folder)
        coordinator.register_capability("amplifier.home", self._home)
        coordinator.register_policy("project", project_policy(self.project))
        coordinator.hooks.register(MODULE_LOAD_FAILED, self._on_load_failed, name="app-strict")
        coordinator.hooks.register(TOOL_POST, self._on_tool_post, priority=900, name="app-transcript")

    def _on_load_failed(self, event: str, data: dict[str, Any]) -> None:
        self._failures.append(f"{data['module_type']} '{data['module_id']}': {data['error']}")

    async def _on_tool_post(self, event: str, data: dict[str, Any]) -> None:
        await self._save_transcript()

    def _set_instruction(self) -> None:
        """Let the context ask for the instruction at every request, so that it is never summarised away."""
        context = self.session.coordinator.get("context")
        if self.bundle.instruction and hasattr(context, "set_system_prompt_factory"):

            async def instruction() -> str:
                return self.bundle.instruction

            context.set_system_prompt_factory(instruction)

    async def _save(self) -> None:
        await self._save_transcript()
        facts = {
            "session_id": self.session_id,
            "created": self._created,
            "bundle": f"bundle:{self.bundle.name}",
            "turn_count": self._turns,
            "working_dir": str(self.project),
        }
        text = json.dumps(self.redactor.scrub(facts).value, ensure_ascii=False, indent=2)
        try:
            replace_file(self.folder / "metadata.json", text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            self._tell("metadata.json", error)

    async def _save_transcript(self) -> None:
        context = self.session.coordinator.get("context")
        if context is None:
            return
        try:
            self._transcript.update(await context.get_messages())
        except Exception as error:  # a context may raise anything, and an answer is worth more than its copy
            self._tell("transcript.jsonl", error)

    def _tell(self, name: str, error: Exception) -> None:
        """Say that a file cannot be written, once for each reason: it is tried again every turn."""
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        known = f"{name}: {reason}"
        if known not in self._told:
            self._told.add(known)
            logger.error("Cannot write %s: %s. The session goes on", self.folder / name, reason)

    async def _close(self) -> None:
        try:
            await self.session.cleanup()
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None
