"""Run one session the way applications do: in a folder of its own, with a log, a rule, and no module missing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_core.events import MODULE_LOAD_FAILED
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.policy import project_policy
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.sessions.keeper import SessionKeeper
from amplifier_foundation.sessions.resume import SavedSession
from amplifier_kit.log import SessionLog
from amplifier_kit.redaction import Redactor, live_values_from_env, live_values_from_plan

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT = 30.0
READY_TIMEOUT = 10.0
#: Notes about a session that the process which runs it keeps.
_COUNTED = ("turn_count", "usage", "first_prompt")
#: Said by this layer when files were put into the prompt.
MENTIONS_RESOLVED = "mentions:resolved"


class ModulesMissingError(FoundationError):
    """Modules of the plan could not be loaded; `failures` has one line for each.

    `is_fatal` says that the session cannot do without one of them, whatever is allowed.
    """

    code = "modules_missing"

    def __init__(self, failures: list[str], *, is_fatal: bool = False) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures
        self.is_fatal = is_fatal


class SessionRuntime:
    """One session of a prepared bundle, new or taken up again; use it as `async with`, then call `execute()`."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        session_id: str | None = None,
        saved: SavedSession | None = None,
        approval_system: Any = None,
        display_system: Any = None,
        environ: Mapping[str, str] = os.environ,
        allow_missing_modules: bool = False,
    ) -> None:
        """Prepare the session; nothing is loaded and no file is made before it is entered.

        With `saved` it is that session that goes on, under its own id and in its own folder.
        """
        self.prepared = prepared
        self.session_id = saved.session_id if saved else session_id or str(uuid.uuid4())
        self.folder = saved.folder if saved else prepared.home.sessions(prepared.project) / self.session_id
        self._saved = saved
        self._allow_missing = allow_missing_modules
        self._failures: list[str] = []
        self._log: SessionLog | None = None
        #: Whether the session came as far as having a log.
        self.was_opened = False
        plan = _expanded(prepared, environ)
        self.redactor = Redactor([*live_values_from_env(environ), *live_values_from_plan(plan)])
        self.session = AmplifierSession(
            plan,
            session_id=self.session_id,
            approval_system=approval_system,
            display_system=display_system,
            is_resumed=saved is not None,
        )
        self._keeper = SessionKeeper(self.folder, self.redactor, self._facts())
        self.prompt = self._system_prompt()

    @property
    def log_path(self) -> Any:
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
            await self._connect(self._log)
            await self._initialize()
            await self._take_up()
            self._keeper.keep_record(self.prepared.composed)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def execute(self, prompt: str) -> Any:
        """Run one turn and keep the conversation, however the turn ends; @mentions in the prompt bring their files."""
        self._keeper.open_turn(prompt)
        try:
            return await self.session.execute(await self.prompt.expand_prompt(prompt))
        finally:
            await self._keeper.close_turn(self.session.coordinator.get("context"))

    # -- bringing it up --

    async def _connect(self, log: SessionLog) -> None:
        coordinator, prepared = self.session.coordinator, self.prepared
        coordinator.add_log_processor(self.redactor)
        coordinator.add_log_sink(log.write)
        for name, value in self._capabilities().items():
            coordinator.register_capability(name, value)
        coordinator.register_contributor("observability.events", "app", lambda: [MENTIONS_RESOLVED])
        coordinator.register_policy("project", project_policy(prepared.project))
        coordinator.hooks.register(MODULE_LOAD_FAILED, self._on_load_failed, name="app-strict")
        self._keeper.connect(coordinator)
        if prepared.modules:
            from amplifier_foundation.sources.module_resolver import PreparedModules

            await coordinator.mount("module-source-resolver", PreparedModules(prepared.modules))

    def _capabilities(self) -> dict[str, Any]:
        prepared = self.prepared
        return {
            "session.working_dir": str(prepared.project),
            "session.dir": self.folder,
            "amplifier.home": prepared.home.path,
            "bundle_package_paths": [str(path) for path in prepared.package_paths],
            "mention_resolver": self.prompt.resolver,
            "mention_deduplicator": self.prompt.deduplicator,
        }

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

    def _on_load_failed(self, event: str, data: dict[str, Any]) -> None:
        self._failures.append(f"{data['module_type']} '{data['module_id']}': {data['error']}")

    async def _take_up(self) -> None:
        """Give the context its instruction and, when the session goes on, its history."""
        context = self.session.coordinator.get("context")
        if context is None:
            return
        if hasattr(context, "set_system_prompt_factory"):
            # Asked at every request, so that the instruction is never summarised away and edits take effect.
            context.set_system_prompt_factory(self.prompt.__call__)
        elif text := await self.prompt():
            await context.add_message({"role": "system", "content": text})
        if self._saved is not None:
            await context.set_messages(self._saved.messages)
            self._keeper.transcript.take_up(self._saved.stored)
            await self._keeper.keep_messages(context)

    # -- what it starts with --

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "session_id": self.session_id,
            "created": datetime.now(UTC).isoformat(),
            "bundle": f"bundle:{self.prepared.composed.name}",
            "model": _model(self.session.config),
            "turn_count": 0,
            "working_dir": str(self.prepared.project),
        }
        if self._saved is None:
            return facts
        known = self._saved.metadata
        # Only what this process counts is written again: another one may have renamed the session meanwhile.
        missing = {key: value for key, value in facts.items() if key not in known}
        return missing | {key: value for key, value in known.items() if key in _COUNTED}

    def _system_prompt(self) -> SystemPrompt:
        from pathlib import Path

        from amplifier_foundation.prompt.mention_resolver import MentionResolver

        composed, prepared = self.prepared.composed, self.prepared
        namespaces = {name: Path(root) for name, root in composed.namespaces.items()}
        return SystemPrompt(
            composed.instruction,
            {name: Path(file) for name, file in composed.context.items()},
            MentionResolver(namespaces, prepared.project, prepared.home),
            on_resolved=self._on_mentions,
        )

    async def _on_mentions(self, payload: dict[str, Any]) -> None:
        await self.session.coordinator.hooks.emit(MENTIONS_RESOLVED, payload)

    async def _close(self) -> None:
        try:
            await self.session.cleanup()
        finally:
            if self._log is not None:
                self._log.close()
                self._log = None


def _expanded(prepared: Prepared, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan with the values of its variables and the deadlines of this app."""
    from amplifier_foundation.settings.plan import expand_plan

    plan = expand_plan(prepared.composed.plan, environ).value
    return {**plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT} | plan.get("session", {})}


def _model(plan: dict[str, Any]) -> str | None:
    """Return the model that the plan's first choice of provider is configured with, as `provider/model`."""
    providers = [entry for entry in plan.get("providers") or [] if isinstance(entry, dict) and entry.get("module")]
    if not providers:
        return None
    first = min(providers, key=lambda entry: (entry.get("config") or {}).get("priority", 100))
    model = (first.get("config") or {}).get("default_model")
    name = str(first.get("id") or first["module"])
    return f"{name}/{model}" if model else name
