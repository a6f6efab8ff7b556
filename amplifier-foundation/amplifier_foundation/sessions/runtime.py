"""Run one session the way applications do: in a folder of its own, with a log, a rule, and no module missing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from amplifier_core import AmplifierSession
from amplifier_core.events import MODULE_LOAD_FAILED
from amplifier_foundation.budget import SessionBudget
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import make_private
from amplifier_foundation.import_path import hold, of_other_session, was_used
from amplifier_foundation.permissions.places import policy_files
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.sessions.answered_calls import APPROVAL_ANSWERED, run_answered
from amplifier_foundation.sessions.keeper import SessionKeeper
from amplifier_foundation.sessions.plan_facts import has_own_rules, planned_budget, provider_and_model
from amplifier_foundation.sessions.usage import Usage
from amplifier_foundation.sessions.waiting_calls import WaitingCall, WaitingCalls
from amplifier_kit.log import SessionLog
from amplifier_kit.redaction import Redactor, live_values_from_env, live_values_from_plan

if TYPE_CHECKING:
    from amplifier_foundation.permissions.session_permissions import SessionPermissions
    from amplifier_foundation.sessions.checkpoints import Checkpoints
    from amplifier_foundation.sessions.resume import SavedSession

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT = 30.0
READY_TIMEOUT = 10.0
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
        budget: Mapping[str, Any] | None = None,
        trust: bool = False,
    ) -> None:
        """Prepare the session; nothing is loaded and no file is made before it is entered.

        With `saved` it is that session that goes on, under its own id and in its own folder. Limits of `budget` count
        more than those of the plan. `trust` lets the rules of the project allow things, whatever is recorded of it.
        Raises BudgetError for limits that are none.
        """
        self.prepared = prepared
        self.session_id = saved.session_id if saved else session_id or str(uuid.uuid4())
        self.folder = saved.folder if saved else prepared.home.sessions(prepared.project) / self.session_id
        self._saved = saved
        self._allow_missing = allow_missing_modules
        self._failures: list[str] = []
        self._log: SessionLog | None = None
        self._release: Callable[[], None] = lambda: None
        #: Whether the session came as far as having a log.
        self.was_opened = False
        self._trust = trust
        self.prompt = self._system_prompt()  # rules are about the files it finds
        plan, missing = _expanded(prepared, environ)
        #: What the user should know, in readable lines: values that are empty because their variable is not set, and
        #: rules that cannot be read or do not count.
        self.warnings: tuple[str, ...] = (*missing, *self._problems_of_rules())
        secrets = [*live_values_from_env(environ), *live_values_from_plan(plan)]
        self.redactor = Redactor(secrets)
        self.session = AmplifierSession(
            plan,
            session_id=self.session_id,
            approval_system=approval_system,
            display_system=display_system,
            is_resumed=saved is not None,
        )
        self._keeper = SessionKeeper(self.folder, self.redactor, self._facts(), secrets)
        #: What this process may use for the session.
        self.budget = SessionBudget({**planned_budget(plan), **(budget or {})})

    @property
    def provider(self) -> str | None:
        """Return the provider that answers, None when the plan has none."""
        return provider_and_model(self.session.config)[0]

    @property
    def model(self) -> str | None:
        """Return the model that answers, as `provider/model`; None when the plan leaves it to the provider."""
        return provider_and_model(self.session.config)[1]

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Return where files are kept as they were before a tool writes them."""
        from amplifier_foundation.sessions.checkpoints import Checkpoints

        return Checkpoints(self.folder, turn=self._keeper.turns)

    @cached_property
    def permissions(self) -> SessionPermissions:
        """Return what the session may do."""
        from amplifier_foundation.permissions.session_permissions import SessionPermissions

        locate = self.prompt.resolver.resolve
        return SessionPermissions.of(self.prepared, self.folder, is_trusted=self._trust or None, locate=locate)

    @property
    def waiting(self) -> WaitingCalls:
        """Return the calls that wait for somebody to allow them."""
        return WaitingCalls(self.folder)

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
        with suppress(OSError):  # the log says so, and why
            make_private(self.folder)
        self._log = SessionLog(self.folder)
        self.was_opened = True
        try:
            await self._connect(self._log)
            await self._initialize()
            await self._take_up()
            if not self.prepared.is_recorded:
                self._keeper.keep_record(self.prepared.composed)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def execute(self, prompt: str, waited: Sequence[WaitingCall] = ()) -> Any:
        """Run one turn and keep the conversation, however the turn ends; @mentions in the prompt bring their files.

        The calls in `waited` are run before, at most once, and what came of them stands before the prompt.
        """
        self._keeper.open_turn(prompt)
        if "checkpoints" in self.__dict__:  # else they are not used yet, and start with this turn
            self.checkpoints.turn = self._keeper.turns
        try:
            expanded = await self.prompt.expand_prompt(prompt)
            if waited:
                told = await run_answered(self.session.coordinator, self.waiting, waited)
                expanded = f"{told}\n\n{expanded}" if expanded else told
            return await self.session.execute(expanded)
        finally:
            await self._keeper.close_turn(self.session.coordinator.get("context"))

    async def keep(self) -> None:
        """Keep the conversation as it is now, for apps that change it between turns."""
        await self._keeper.keep_messages(self.session.coordinator.get("context"))

    # -- bringing it up --

    async def _connect(self, log: SessionLog) -> None:
        coordinator, prepared = self.session.coordinator, self.prepared
        self._release = hold((*prepared.package_paths, *prepared.modules.values()))
        coordinator.add_log_processor(self.redactor)
        coordinator.add_log_sink(log.write)
        for name, value in self._capabilities().items():
            coordinator.register_capability(name, value)
        coordinator.register_contributor("observability.events", "app", lambda: [MENTIONS_RESOLVED, APPROVAL_ANSWERED])
        if self._saved is not None:
            coordinator.register_contributor("session.cost", "session:past", _past_cost(self._saved))
        # Loaded when something is to be decided: most of it is not needed before.
        coordinator.register_policy("rules", lambda action, details: self.permissions.policy(action, details))
        coordinator.hooks.register(MODULE_LOAD_FAILED, self._on_load_failed, name="app-strict")
        self._keeper.connect(coordinator)
        self.budget.connect(coordinator)
        if prepared.modules or was_used():
            from amplifier_foundation.sources.module_resolver import PreparedModules

            await coordinator.mount("module-source-resolver", PreparedModules(prepared.modules, self._elsewhere))

    async def _elsewhere(self, module_id: str, hint: Any) -> Path | None:
        """Refuse a module that another session of this process brought; leave all others to what is installed."""
        found = of_other_session(module_id, self.prepared.modules.values())
        if found is None:
            return None
        raise ImportError(
            f"module {module_id!r} is loaded from {found}, for another session of this process: run this one in a "
            "process of its own"
        )

    def _capabilities(self) -> dict[str, Any]:
        prepared = self.prepared
        return {
            "session.working_dir": str(prepared.project),
            "session.dir": self.folder,
            "amplifier.home": prepared.home.path,
            "bundle_package_paths": [str(path) for path in prepared.package_paths],
            "mention_resolver": self.prompt.resolver,
            "mention_deduplicator": self.prompt.deduplicator,
            "session.checkpoint": _Later(lambda: self.checkpoints),
            "policy.hidden": lambda tool: self.permissions.current.hidden(tool),
            "approval.is_remembered": lambda action, details: self.permissions.is_allowed_by_person(action, details),
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
        messages = self._saved.messages if self._saved is not None else []
        if hasattr(context, "set_system_prompt_factory"):
            # Asked at every request, so that the instruction is never summarised away and edits take effect.
            context.set_system_prompt_factory(self.prompt.__call__)
        elif text := await self.prompt():
            # In front of the history, which is set as a whole below.
            messages = [{"role": "system", "content": text}, *messages]
        if self._saved is None:
            for message in messages:
                await context.add_message(message)
            return
        await context.set_messages(messages)
        await _add_what_is_missing(context, self._saved.messages)
        was_cut_off = bool(self._saved.metadata.get("incremental"))
        await self._keeper.take_up(self._saved.stored, self._saved.messages, context, was_cut_off=was_cut_off)

    # -- what it starts with --

    def _problems_of_rules(self) -> list[str]:
        """Return what is wrong with the rules; nobody's rules need not be loaded for that."""
        prepared = self.prepared
        has_files = any(map(os.path.lexists, policy_files(prepared.home, prepared.project, self.folder)))
        if not has_files and not has_own_rules(prepared.composed.plan):
            return []
        return [f"{problem.where}: {problem.message}" for problem in self.permissions.problems]

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "session_id": self.session_id,
            "created": datetime.now(UTC).isoformat(),
            "bundle": f"bundle:{self.prepared.composed.name}",
            "provider": self.provider,
            "model": self.model,
            "turn_count": 0,
            "working_dir": str(self.prepared.project),
        }
        if self._saved is None:
            return facts
        known = self._saved.metadata
        # Only what this process changes is written again: another one may have renamed the session meanwhile.
        changed = {key: value for key, value in facts.items() if key not in known}
        changed |= {
            "turn_count": self._saved.turn_count,
            "first_prompt": self._saved.first_prompt,
            "provider": facts["provider"],
        }
        usage = Usage(known.get("usage"))
        if self._saved.turn_count:
            usage.begin(facts["created"])
        changed["usage"] = usage.facts
        composed = self.prepared.composed
        if self._saved.bundle not in (None, composed.name, composed.reference):
            changed |= {"bundle": facts["bundle"], "bundle_overrides": _overrides(known, facts)}
        # A model that is not named any more is taken out of what is known.
        return {key: value for key, value in changed.items() if value is not None} | {"model": facts["model"]}

    def _system_prompt(self) -> SystemPrompt:
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
            self._release()
            if self._log is not None:
                self._log.close()
                self._log = None


def _expanded(prepared: Prepared, environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the plan with the values of its variables and the deadlines of this app, and what is not set."""
    from amplifier_foundation.settings.plan import expand_plan

    expanded = expand_plan(prepared.composed.plan, environ)
    missing = [f"{one.key}: the variable {one.name} is not set, so this is empty" for one in expanded.missing]
    plan, session = expanded.value, expanded.value.get("session")
    if isinstance(session, dict):  # of anything else the kernel says what is wrong
        plan = {**plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT} | session}
    return plan, list(dict.fromkeys(missing))


async def _add_what_is_missing(context: Any, messages: list[dict[str, Any]]) -> None:
    """Add the end of a history to a context that believes its own file, and whose file ends earlier.

    One whose file goes further is mended at its end. Nothing is added when the two do not say the same as far as they
    go: calls without a result are mended at every request, and a history put together from two would be nobody's.
    """
    from amplifier_foundation.sessions.history import repaired
    from amplifier_foundation.sessions.resume import conversation, says_same

    held = conversation(await context.get_messages())
    if len(held) > len(messages):
        messages = repaired(held).messages
    if len(held) < len(messages) and says_same(held, messages):
        for message in messages[len(held) :]:
            await context.add_message(message)


def _past_cost(saved: SavedSession) -> Callable[[], Any]:
    """Return what tells the cost of earlier turns; it is found out when somebody asks."""
    known = dict(saved.metadata.get("usage") or {}) if isinstance(saved.metadata.get("usage"), dict) else None
    since = datetime.now(UTC).isoformat()
    told: list[dict[str, str] | None] = []

    async def past() -> dict[str, str] | None:
        import asyncio

        from amplifier_foundation.sessions.usage import past_cost

        if not told:
            cost = await asyncio.to_thread(past_cost, known, saved.folder, since)
            told.append({"cost_usd": str(cost)} if cost is not None else None)
        return told[0]

    return past


def _overrides(known: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Any]:
    """Return the bundles that took the place of the session's own, this one added."""
    before = known.get("bundle_overrides")
    override = {"timestamp": facts["created"], "original": known.get("bundle"), "forced": facts["bundle"]}
    return [*(before if isinstance(before, list) else []), override]


class _Later:
    """Stand for an object that is made when something of it is asked for: most sessions write no file."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)
