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
from amplifier_kit.log import SessionLog
from amplifier_kit.redaction import Redactor, live_values_from_env, live_values_from_plan

from amplifier_foundation.bundles import Bundle
from amplifier_foundation.paths import sessions_dir
from amplifier_foundation.policy import project_policy
from amplifier_foundation.sessions.transcript import Transcript

logger = logging.getLogger(__name__)

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT = 30.0
READY_TIMEOUT = 10.0


class ModulesMissingError(Exception):
    """Modules of the plan could not be loaded; `failures` has one line for each."""

    def __init__(self, failures: list[str]) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures


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
        """Open the log and bring the session up; raise ModulesMissingError, naming all, when a module is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = SessionLog(self.folder)
        try:
            self._connect(self._log)
            await self.session.initialize()
            if self._failures and not self._allow_missing:
                raise ModulesMissingError(self._failures)
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
        fresh = self.folder / f"metadata.json.{os.getpid()}.tmp"
        try:
            fresh.write_text(text + "\n", encoding="utf-8")
            os.replace(fresh, self.folder / "metadata.json")
        except OSError as error:
            logger.error("Cannot write %s: %s", self.folder / "metadata.json", error)

    async def _save_transcript(self) -> None:
        context = self.session.coordinator.get("context")
        try:
            self._transcript.update(await context.get_messages())
        except OSError as error:
            logger.error("Cannot write the transcript in %s: %s", self.folder, error)

    async def _close(self) -> None:
        try:
            await self.session.cleanup()
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None
