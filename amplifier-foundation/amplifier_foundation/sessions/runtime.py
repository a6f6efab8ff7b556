"""Run one session the way applications do: in a folder of its own, with a log, a rule, and no module missing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from amplifier_core import AmplifierSession
from amplifier_core.events import MODULE_LOAD_FAILED
from amplifier_foundation.approvals.answered_by import name_modules_that_decide
from amplifier_foundation.approvals.pending import APPROVAL_ANSWERED, PendingCall, PendingCalls, run_answered
from amplifier_foundation.children.switched import Mounted
from amplifier_foundation.files import make_private
from amplifier_foundation.plan.import_path import hold, of_other_session, was_used
from amplifier_foundation.plan.module_config import check_module_configs
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.policy.places import policy_files
from amplifier_foundation.prompt.delivery import PromptDelivery
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.prompt.user_input import UserInput
from amplifier_foundation.sessions.keeper import SessionKeeper
from amplifier_foundation.sessions.live_plan import live_plan
from amplifier_foundation.sessions.missing_modules import ModulesMissingError, further_failures
from amplifier_foundation.sessions.offered import capabilities_of, cost_of_past_children
from amplifier_foundation.sessions.plan_facts import (
    has_own_rules,
    is_trusted,
    planned_budget,
    provider_and_model,
    wants_hash_chain,
)
from amplifier_foundation.sessions.starting_facts import secrets_of, starting_facts, told_of_model
from amplifier_foundation.sessions.taking_up import add_what_is_missing, cost_before
from amplifier_foundation.sessions.turn_end import TurnEnd
from amplifier_foundation.trust.control_files import code_in_project
from amplifier_foundation.trust.given import GivenTrust
from amplifier_foundation.usage import SessionBudget
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.guard.redaction import Redactor
from amplifier_kit.log import SessionLog

if TYPE_CHECKING:
    from amplifier_foundation.children.children import ChildSessions
    from amplifier_foundation.children.model_roles import ModelRoles
    from amplifier_foundation.children.origin import OnChildEvent, Origin
    from amplifier_foundation.policy.session_permissions import SessionPermissions
    from amplifier_foundation.sessions.checkpoints import Checkpoints
    from amplifier_foundation.sessions.resume import SavedSession

#: Said by this layer when files were put into the prompt.
MENTIONS_RESOLVED = "mentions:resolved"
#: After everybody else has heard of an event.
_LAST = 1000


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
        trust: bool | GivenTrust = False,
        origin: Origin | None = None,
        on_child_event: OnChildEvent | None = None,
    ) -> None:
        """Prepare the session; nothing is loaded and no file is made before it is entered.

        With `saved` it is that session that goes on, under its own id and in its own folder. Limits of `budget` count
        more than those of the plan. `trust` lets the project's rules allow things while its files stay as they were.
        `origin` is what a child has from the session that started it. `on_child_event` is told every event of every
        session below this one. Raises BudgetError for limits that are none.
        """
        if saved is not None:
            from amplifier_foundation.children.recovered import with_children

            saved = with_children(saved)
        self.prepared = prepared
        self.session_id = saved.session_id if saved else session_id or str(uuid.uuid4())
        self.origin = origin
        self.folder = saved.folder if saved else prepared.home.sessions(prepared.project) / self.session_id
        if origin is not None:
            self.folder = origin.folder
        self.saved = saved
        self.environ = environ
        self.allow_missing_modules = allow_missing_modules
        self.on_child_event = on_child_event
        self._failures: list[str] = []
        self._is_mute = False
        self._log: SessionLog | None = None
        self._release: Callable[[], None] = lambda: None
        #: What there was when the session was ready.
        self.mounted = Mounted()
        #: Whether the session came as far as having a log, and whether it has ended: then nothing starts from it.
        self.was_opened = self.is_over = False
        #: What the user trusts for this run, as it was then; None for nothing.
        code = code_in_project(prepared.composed, prepared.layers, prepared.project, prepared.home.path)
        self.given_trust = GivenTrust.of(prepared.project, trust, code)
        self.prompt = self._system_prompt()  # rules are about the files it finds
        plan, missing = live_plan(prepared, environ)
        # The plan of a child was checked as part of its parent's.
        configs = check_module_configs(plan, prepared) if origin is None else []
        #: The agents in the plan before anybody has changed it.
        self.agents_at_start = dict(agents) if isinstance(agents := plan.get("agents"), Mapping) else {}
        #: What the user should know, in readable lines: another model than before, values that are empty because their
        #: variable is not set, config that is wrong or ignored, and rules that cannot be read or do not count.
        self.warnings: tuple[str, ...] = (*told_of_model(plan, saved), *missing, *configs, *self._problems_of_rules())
        #: Texts that must not be in any file of the session.
        self.secrets = secrets_of(plan, environ, origin)
        self.redactor = Redactor(self.secrets)
        self.session = AmplifierSession(
            plan,
            session_id=self.session_id,
            parent_id=origin.facts.parent_id if origin is not None else None,
            approval_system=approval_system,
            display_system=display_system,
            is_resumed=saved is not None,
        )
        #: How the system prompt gets to the model.
        self._delivery = PromptDelivery(self.prompt, plan)
        facts = starting_facts(self.session_id, prepared, plan, saved)
        if origin is not None:
            facts |= origin.metadata
        #: What this process may use for the session.
        self.budget = (origin.budget if origin is not None else None) or SessionBudget(
            {**planned_budget(plan), **(budget or {})}
        )
        #: What the session and its children use in this process.
        self.account = self.budget.account
        self._keeper = SessionKeeper(self.folder, self.redactor, facts, self.secrets, self.account)
        #: How the last turn ended.
        self.turn_end = TurnEnd(self.budget)

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
        if self.origin is not None and self.origin.permissions:
            return self.origin.permissions[0]
        from amplifier_foundation.policy.session_permissions import SessionPermissions

        locate = self.prompt.resolver.resolve
        return SessionPermissions.of(self.prepared, self.folder, trust=self.given_trust, locate=locate)

    @property
    def more_permissions(self) -> tuple[SessionPermissions, ...]:
        """Return what else has a say in what the session may do: the rules of agents from its root down to it."""
        return self.origin.permissions[1:] if self.origin is not None else ()

    @property
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """Return the plans whose rules hold in the session."""
        return self.origin.rules if self.origin is not None else (self.prepared.composed.plan,)

    @cached_property
    def children(self) -> ChildSessions:
        """Return who starts sessions from this one."""
        from amplifier_foundation.children.children import ChildSessions

        return ChildSessions(self)

    @cached_property
    def routing(self) -> ModelRoles:
        """Return which models stand for a role."""
        from amplifier_foundation.children.model_roles import ModelRoles
        from amplifier_foundation.children.switched import answering

        return ModelRoles(self.prepared.home, self.prepared.project, lambda: answering(self.session.coordinator))

    @property
    def root_id(self) -> str:
        """Return the id of the session at the top of the tree."""
        return self.origin.root_id if self.origin is not None else self.session_id

    @property
    def turns(self) -> int:
        """Return how many turns the session has had, the running one included."""
        return self._keeper.turns

    @property
    def usage(self) -> dict[str, Any]:
        """Return what the answers of the session used, those of its children left out."""
        return self._keeper.usage

    @property
    def pending_calls(self) -> PendingCalls:
        """Return the calls that wait for somebody to allow them."""
        return PendingCalls(self.folder)

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
        self._log = SessionLog(
            self.folder,
            blobs=self.origin.root_folder / "blobs" if self.origin else None,
            redactor=self.redactor,
            verify=wants_hash_chain(self.session.config),
        )
        self.was_opened = True
        if self.origin is not None and self.saved is None:
            self._keeper.keep_place()  # else nobody knows whose child it is when it is killed before its first turn
        try:
            await self._connect(self._log)
            await self._initialize()
            await self._offer_approval_provider()
            if self.origin is not None:
                self.origin.switched.apply(self.session.coordinator)
            self.mounted = Mounted.of(self.session.coordinator)
            self._delivery.watch(self.session.coordinator)
            await self._take_up()
            if not self.prepared.is_recorded:
                self._keeper.keep_record(self.prepared.composed)
        except BaseException as error:
            self.session.status.status = "failed" if isinstance(error, Exception) else "cancelled"  # its log says so
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _offer_approval_provider(self) -> None:
        coordinator = self.session.coordinator
        if coordinator.get_capability("approval.register_provider") is not None:
            from amplifier_foundation.approvals.provider_adapter import offer_provider

            await offer_provider(coordinator)

    async def execute(self, prompt: UserInput | str, waited: Sequence[PendingCall] = ()) -> Any:
        """Run one turn and keep the conversation, however the turn ends.

        @mentions bring their files where the user typed them: give `UserInput.of_typed(text)`. In a plain `str` an `@`
        is a character: the text may come from a pipe, a file or a model. The calls in `waited` are run before, at most
        once, and what came of them stands before the prompt.
        """
        self._keeper.open_turn(prompt.text if isinstance(prompt, UserInput) else prompt)
        self.turn_end.begin()
        if "checkpoints" in self.__dict__:  # else they are not used yet, and start with this turn
            self.checkpoints.turn = self._keeper.turns
        try:
            expanded = await self.prompt.expand_prompt(prompt)
            if waited:
                told = await run_answered(self.session.coordinator, self.pending_calls, waited)
                expanded = f"{told}\n\n{expanded}" if expanded else told
            answer = await self._run_turn(expanded)
            self.turn_end.judge(self.session)
            return answer
        finally:
            await self._keeper.close_turn(self.session.coordinator.get("context"))

    async def _run_turn(self, prompt: str) -> Any:
        """Run one turn; raise SystemPromptMissingError when a request lacked the prompt, also where a loop hides it."""
        self._delivery.begin_turn(prompt)
        try:
            answer = await self.session.execute(prompt)
        except Exception as error:
            if self._delivery.failure in (None, error):
                raise
            raise self._delivery.failure from error
        if self._delivery.failure is not None:
            self.session.status.status = "failed"
            self.session.status.last_error = {"message": str(self._delivery.failure)}
            raise self._delivery.failure
        return answer

    async def replace_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        """Put another conversation in the place of the one before; the system prompt stays."""
        context = self.session.coordinator.get("context")
        if not messages:
            await maybe_await(context.clear())
        if begun := await self._delivery.give(context, messages):
            await maybe_await(context.set_messages(begun))

    def keep_facts(self, said: Sequence[Mapping[str, Any]] = ()) -> None:
        """Keep what is known of the session although it has had no turn; a new one to which was `said` can go on."""
        self._keeper.keep_facts(self.prepared.composed, said if self.saved is None else ())

    async def keep(self) -> None:
        """Keep the conversation as it is now, for apps that change it between turns."""
        await self._keeper.keep_messages(self.session.coordinator.get("context"))

    def end_logs(self) -> None:
        """Write and close what the logs of the tree in this process lack, for a process that ends without a loop."""
        from amplifier_foundation.children.hard_end import end_log

        for child in self.children.at_work_here if "children" in self.__dict__ else ():
            child.end_logs()
        if self._log is not None:
            end_log(self._log, self.folder)

    # -- bringing it up --

    async def _connect(self, log: SessionLog) -> None:
        coordinator, prepared = self.session.coordinator, self.prepared
        self._release = hold((*prepared.package_paths, *prepared.modules.values()), prepared.project)
        coordinator.add_log_sink(log.write)
        for name, value in capabilities_of(self).items():
            coordinator.register_capability(name, value)
        coordinator.register_contributor("observability.events", "app", lambda: [MENTIONS_RESOLVED, APPROVAL_ANSWERED])
        if self.saved is not None:
            coordinator.register_contributor("session.cost", "session:past", cost_before(self.saved))
            coordinator.register_contributor("session.cost", "delegate:past", cost_of_past_children(self))
        # Loaded when something is to be decided: most of it is not needed before.
        coordinator.register_policy("rules", lambda action, details: self.permissions.policy(action, details))
        for number, permissions in enumerate(self.more_permissions, 1):
            coordinator.register_policy(f"agent-rules-{number}", permissions.policy)
        name_modules_that_decide(coordinator)
        coordinator.hooks.register(MODULE_LOAD_FAILED, self._on_load_failed, name="app-strict")
        if self.origin is not None and self.on_child_event is not None:
            coordinator.hooks.register("*", self._on_own_event, priority=_LAST, name="app-child-events")
        self._keeper.connect(coordinator)
        self.turn_end.connect(coordinator)
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

    def _on_own_event(self, event: str, data: dict[str, Any]) -> None:
        if self.origin is not None and self.on_child_event is not None:
            self.on_child_event(self.origin.facts, event, data)

    async def _initialize(self) -> None:
        try:
            await self.session.initialize()
        except RuntimeError as error:
            # The kernel raises for the loop and the context, and reports every other module as an event.
            if error.__cause__ is None or not str(error).startswith("Cannot initialize without"):
                raise
            is_loop_there = not str(error).startswith("Cannot initialize without orchestrator")
            others = await further_failures(self.session, is_loop_there=is_loop_there)
            raise ModulesMissingError([str(error), *self._failures, *others], is_fatal=True) from error
        if self._failures and (self._is_mute or not self.allow_missing_modules):
            raise ModulesMissingError(self._failures, is_fatal=self._is_mute)  # another provider never takes its place

    def _on_load_failed(self, event: str, data: dict[str, Any]) -> None:
        self._failures.append(f"{data['module_type']} '{data['module_id']}': {data['error']}")
        self._is_mute |= self.provider == (data.get("instance_id") or data["module_id"])

    async def _take_up(self) -> None:
        """Give the context its instruction and, when the session goes on, its history."""
        context = self.session.coordinator.get("context")
        if context is None:
            return
        messages = self.saved.messages if self.saved is not None else []
        messages = await self._delivery.give(context, messages)
        if self.saved is None:
            for message in messages:
                await maybe_await(context.add_message(message))
            return
        await maybe_await(context.set_messages(messages))
        await add_what_is_missing(context, self.saved.messages)
        was_cut_off = bool(self.saved.metadata.get("incremental"))
        await self._keeper.take_up(self.saved.stored, self.saved.messages, context, was_cut_off=was_cut_off)

    # -- what it starts with --

    def _problems_of_rules(self) -> list[str]:
        """Return what is wrong with the rules; nobody's rules need not be loaded for that."""
        prepared = self.prepared
        has_files = any(map(os.path.lexists, policy_files(prepared.home, prepared.project, self.folder)))
        if not has_files and not has_own_rules(prepared.composed.plan):
            return []
        return [f"{problem.where}: {problem.message}" for problem in self.permissions.problems]

    def _system_prompt(self) -> SystemPrompt:
        from amplifier_foundation.prompt.access import PromptAccess
        from amplifier_foundation.prompt.mention_resolver import MentionResolver

        composed, prepared = self.prepared.composed, self.prepared
        namespaces = {name: Path(root) for name, root in composed.namespaces.items()}
        resolver = MentionResolver(namespaces, prepared.project, prepared.home)
        return SystemPrompt(
            composed.instruction,
            {name: Path(file) for name, file in composed.context.items()},
            resolver,
            on_resolved=self._on_mentions,
            access=PromptAccess(
                resolver,
                lambda: [one.current for one in (self.permissions, *self.more_permissions)],
                lambda: is_trusted(prepared, self.given_trust),
                composed.texts,
            ),
        )

    async def _on_mentions(self, payload: dict[str, Any]) -> None:
        await self.session.coordinator.hooks.emit(MENTIONS_RESOLVED, payload)

    async def _close(self) -> None:
        try:
            if "children" in self.__dict__:
                await self.children.close()
            await self.session.cleanup()
        finally:
            self._delivery.close()
            self.is_over = True
            self._release()
            if self._log is not None:
                self._log.close()
                self._log = None
