"""Run one session of a prepared bundle: with a folder, a log, permission rules, a budget and child sessions."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from amplifier_core import AmplifierSession
from amplifier_core.events import ORCHESTRATOR_COMPLETE
from amplifier_foundation.approvals.answered_by import name_modules_that_decide
from amplifier_foundation.approvals.pending_calls import APPROVAL_ANSWERED, PendingCall, PendingCalls, run_answered
from amplifier_foundation.files import make_private
from amplifier_foundation.merge import copied
from amplifier_foundation.plan.import_path import hold, of_other_session, was_used
from amplifier_foundation.plan.module_config import check_module_configs
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.plan.project_files import code_in_project
from amplifier_foundation.policy.modes import (
    AUTO,
    METADATA_KEY,
    MODE_CHANGED,
    READ_ONLY,
    RUNNING,
    UNASKED_CHANGE,
    Mode,
    PermissionModeError,
    RunPermissions,
    mode_of_saved,
    parse_mode,
)
from amplifier_foundation.policy.sandboxed import SandboxedTools, check_mode
from amplifier_foundation.policy.unasked_changes import State, changes, states
from amplifier_foundation.prompt.delivery import PromptDelivery
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.prompt.user_input import UserInput
from amplifier_foundation.sessions.capabilities import capabilities_of
from amplifier_foundation.sessions.log import PythonLog
from amplifier_foundation.sessions.origin import Children, Mounted, OnChildEvent, Origin, Spawner
from amplifier_foundation.sessions.plan import (
    has_own_rules,
    is_trusted,
    live_plan,
    load_modules,
    model_change,
    planned_budget,
    provider_and_model,
    wants_hash_chain,
    with_folders,
)
from amplifier_foundation.sessions.recorder import SessionRecorder, starting_metadata
from amplifier_foundation.trust.store import GivenTrust
from amplifier_foundation.usage.budget import SessionBudget
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.guard.redaction.known_values import live_values_from_env, live_values_from_plan
from amplifier_kit.guard.redaction.redactor import Redactor, known_secrets, remember_secrets
from amplifier_kit.log.writer import SessionLog

if TYPE_CHECKING:
    from amplifier_foundation.sessions.checkpoints import Checkpoints
    from amplifier_foundation.sessions.permissions import SessionPermissions
    from amplifier_foundation.sessions.resume import SavedSession

#: Emitted when @mentions have put files into a prompt.
MENTIONS_RESOLVED = "mentions:resolved"
#: The events of this package.
_EVENTS: Final = (
    *(MENTIONS_RESOLVED, APPROVAL_ANSWERED, MODE_CHANGED, UNASKED_CHANGE, "session:undo", "session:restore"),
)
#: The events that no log may lack: with the first of them, a resumed session goes on.
_WORK: Final = ("tool:", "approval:", "policy:", "llm:")
#: The capability `runtime_overlay.RUNTIME_CONTEXT_OVERLAY_CAPABILITY`, which few sessions have.
_ADDED_CONTEXT: Final = "runtime_context_overlay"
#: After all other hooks.
_LAST = 1000
#: Before all other policies.
_MODE_PRIORITY = -100
#: After hooks that change what they pass on.
_LATE = 900
#: Turns that ended like this were not ended by the budget, even if it refused something, such as a hook's request.
_NOT_ENDED_BY_BUDGET: Final = ("success", "cancelled")


class SessionRuntime:
    """One session of a prepared bundle, new or resumed; use it as `async with`, then call `execute()`."""

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
        run: RunPermissions | None = None,
        origin: Origin | None = None,
        on_child_event: OnChildEvent | None = None,
        spawner: Spawner | None = None,
        parent_id: str | None = None,
        session_type: type[AmplifierSession] = AmplifierSession,
    ) -> None:
        """Prepare the session; no module is loaded and no file is written before it is entered.

        With `saved`, that session is resumed under its id and in its folder. Limits in `budget` take precedence over
        those of the plan. `trust` lets the project's rules allow things as long as its files do not change. `run` has
        the permission mode and rules for this run; without it, a resumed session keeps its mode. `origin` is what a
        child gets from its parent. `on_child_event` receives every event of every child session. Without a
        `spawner` the session cannot have children. `parent_id` is for apps that run children themselves, `session_type`
        for those that hand out the session. Raises BudgetError for invalid limits.
        """
        if saved is not None and spawner is not None:
            saved = spawner.recover(saved)
        self.prepared = prepared
        self.saved = saved
        self.origin = origin
        self.environ = environ
        self.allow_missing_modules = allow_missing_modules
        self.on_child_event = on_child_event
        self.spawner = spawner
        self.children: Children | None = spawner.children_of(self) if spawner is not None else None
        self.session_id = saved.session_id if saved else session_id or str(uuid.uuid4())
        self.folder = self._find_folder()
        #: The modules that were mounted when the session was ready.
        self.mounted = Mounted()
        #: Whether the session got as far as having a log; whether it has ended, so that it starts no children.
        self.was_opened = self.is_over = False
        above = origin.permissions if origin is not None else ()
        known = saved.metadata if saved is not None else {}
        #: The permission mode and the rules for this run: one object for a session and all its children.
        self.run = above[0].run if above else run or RunPermissions(mode_of_saved(known))
        self._mode_before = mode_of_saved(known) if origin is None else self.run.mode
        self._mode_changes = asyncio.Lock()
        #: The files that others run, as they were before commands ran unasked in this turn; None in other modes.
        self._watched: dict[Path, State] | None = None
        self._sandboxed = SandboxedTools()
        self._log: SessionLog | None = None
        #: What a resumed session logs before it goes on: nothing is written if it does not. None once it goes on.
        self._held: list[dict[str, Any]] | None = None if saved is None else []
        self._python_log: PythonLog | None = None
        self._release: Callable[[], None] = lambda: None
        code = code_in_project(prepared.composed, prepared.layers, prepared.project, prepared.home.path)
        #: What the user trusts for this run, as it was when it started; None for nothing.
        self.given_trust = GivenTrust.of(prepared.project, trust, code)
        self.prompt = self._system_prompt()  # rules are about the files it finds
        plan, unset = live_plan(prepared, environ)
        plan = with_folders(plan, self.run.folders)
        agents = plan.get("agents")
        #: The agents of the plan before a module changes it.
        self.agents_at_start = copied(agents) if isinstance(agents, Mapping) else {}
        #: Warnings for the user: another model than before, unset variables, invalid config, and rules that are
        #: unreadable or ignored.
        self.warnings = self._find_problems(plan, unset)
        #: Texts that must not be in any file of the session.
        self.secrets = self._find_secrets(plan)
        self.redactor = Redactor(self.secrets)
        parent_id = origin.facts.parent_id if origin is not None else parent_id
        self.session = session_type(
            plan,
            session_id=self.session_id,
            parent_id=parent_id,
            approval_system=approval_system,
            display_system=display_system,
            is_resumed=saved is not None,
        )
        self._delivery = PromptDelivery(self.prompt, plan)
        limits = {**planned_budget(plan), **(budget or {})}
        #: What this process may use for the session.
        self.budget = (origin.budget if origin is not None else None) or SessionBudget(limits)
        #: What the session and its children use in this process.
        self.account = self.budget.account
        facts = starting_metadata(self.session_id, prepared, plan, saved)
        facts |= origin.metadata if origin is not None else {"parent_id": parent_id} if parent_id else {}
        facts[METADATA_KEY] = self.run.mode
        self._recorder = SessionRecorder(self.folder, self.redactor, facts, self.secrets, self.account)
        #: How the last turn ended.
        self.turn_end = TurnEnd(self.budget)

    def _find_folder(self) -> Path:
        if self.origin is not None:
            return self.origin.folder
        return self.saved.folder if self.saved else self.prepared.home.sessions(self.prepared.project) / self.session_id

    def _find_problems(self, plan: Mapping[str, Any], unset: Sequence[str]) -> tuple[str, ...]:
        # The plan of a child was checked as part of its parent's.
        configs = check_module_configs(plan, self.prepared) if self.origin is None else []
        return (*model_change(plan, self.saved), *unset, *configs, *self._find_rule_problems())

    def _find_rule_problems(self) -> list[str]:
        """Return what is wrong with the rules; they are not loaded if there are none."""
        prepared = self.prepared
        has_files = any(map(os.path.lexists, prepared.home.policy_files(prepared.project, self.folder)))
        if not has_files and not has_own_rules(prepared.composed.plan):
            return []
        return [f"{problem.where}: {problem.message}" for problem in self.permissions.problems]

    def _find_secrets(self, plan: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the secrets of the session and of its parents, and mask them in all files of this process."""
        own = (*live_values_from_env(self.environ), *live_values_from_plan(plan), *known_secrets())
        found = tuple(dict.fromkeys((*own, *self.origin.secrets))) if self.origin is not None else own
        remember_secrets(found)  # modules write files, too
        return found

    @property
    def provider(self) -> str | None:
        """The provider that answers; None if the plan has none."""
        return provider_and_model(self.session.config)[0]

    @property
    def model(self) -> str | None:
        """The model that answers, as `provider/model`; None for the provider's default."""
        return provider_and_model(self.session.config)[1]

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the files that tools write."""
        from amplifier_foundation.sessions.checkpoints import Checkpoints

        return Checkpoints(self.folder, turn=self._recorder.turns)

    @cached_property
    def permissions(self) -> SessionPermissions:
        """The rules about what the session may do."""
        if self.origin is not None and self.origin.permissions:
            return self.origin.permissions[0]
        from amplifier_foundation.sessions.permissions import SessionPermissions

        locate = self.prompt.resolver.resolve
        return SessionPermissions.of(self.prepared, self.folder, trust=self.given_trust, locate=locate, run=self.run)

    @property
    def permission_mode(self) -> Mode:
        """The permission mode of the session and its children."""
        return self.run.mode

    async def set_permission_mode(self, mode: str, by: Mapping[str, Any]) -> None:
        """Change the permission mode from the next decision on; `by` is who did it, for the log.

        For a user's own choice alone: never pass on what a model, a file or a pasted text says. Raises
        PermissionModeError for an unknown mode, for one that is not available here, and in a child session.
        """
        chosen = parse_mode(mode)
        if self.origin is not None:
            raise PermissionModeError("the permission mode of a child session is that of its root session")
        # The check may take seconds: the mode that was chosen last is the one that stays.
        async with self._mode_changes:
            if chosen == self.run.mode:
                return
            await self._check_mode(chosen)
            self.run.mode, self.run.by = chosen, dict(by)
            self._watch()
            await self._go_on()  # a resumed session without a prompt would have it in its metadata alone
            await self._report_mode()

    async def _check_mode(self, mode: Mode) -> None:
        await check_mode(mode, self.session.coordinator, (self.prepared.project, *self.run.folders))

    async def _report_mode(self) -> None:
        """Record the permission mode in the log and the metadata if it has changed."""
        if (before := self._mode_before) == self.run.mode:
            return
        self._mode_before = self.run.mode
        self._keep_mode()
        data = {"mode": self.run.mode, "previous": before, "by": dict(self.run.by)}
        await self.session.coordinator.hooks.emit(MODE_CHANGED, data)

    def _keep_mode(self) -> None:
        """Write the mode into the metadata of this session and its running children, which may be resumed alone."""
        self._recorder.set_fact(METADATA_KEY, self.run.mode)
        for child in self.children.running if self.children is not None else ():
            child._keep_mode()

    @property
    def more_permissions(self) -> tuple[SessionPermissions, ...]:
        """The rules that agents add, from the root session down to this one; all must allow an action."""
        return self.origin.permissions[1:] if self.origin is not None else ()

    @property
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """The plans whose rules apply to the session."""
        return self.origin.rules if self.origin is not None else (self.prepared.composed.plan,)

    @property
    def root_id(self) -> str:
        """The id of the root session of the tree."""
        return self.origin.root_id if self.origin is not None else self.session_id

    @property
    def turns(self) -> int:
        """The number of turns, the running one included."""
        return self._recorder.turns

    @property
    def usage(self) -> dict[str, Any]:
        """What the session used, without its children."""
        return self._recorder.usage

    @property
    def pending_calls(self) -> PendingCalls:
        """The tool calls that wait for approval."""
        return PendingCalls(self.folder)

    @property
    def log_path(self) -> Path:
        return self.folder / "events.jsonl"

    async def __aenter__(self) -> SessionRuntime:
        """Open the log and load the modules.

        Raises ModulesMissingError, naming all missing modules, SessionLogBusy when another process runs this session,
        and what `AmplifierSession.initialize()` raises. If the folder is not writable, the log reports it on standard
        error and the session continues.
        """
        with suppress(OSError):  # the log reports it
            make_private(self.folder)
        self._log = SessionLog(
            self.folder,
            blobs=self.origin.root_folder / "blobs" if self.origin else None,
            redactor=self.redactor,
            verify=wants_hash_chain(self.session.config),
        )
        self.was_opened = True
        RUNNING[self.session_id] = self.run
        if self.origin is not None and self.saved is None:
            self._recorder.save_identity()  # for a child that is killed before its first turn
        try:
            await self._connect()
            await load_modules(self.session, allow_missing=self.allow_missing_modules)
            if self.children is not None:
                self.children.offer_overlay()
            if self.origin is None:
                await self._check_mode(self.run.mode)
            await self._offer_approval_provider()
            if self.origin is not None:
                self.origin.changes.apply(self.session.coordinator)
            self.mounted = Mounted.of(self.session.coordinator)
            self._delivery.watch(self.session.coordinator.get("context"))
            await self._fill_context()
            if not self.prepared.is_recorded:
                self._recorder.save_record(self.prepared.composed)
        except BaseException as error:
            self._write_held()
            self.session.status.status = "failed" if isinstance(error, Exception) else "cancelled"
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

    async def execute(
        self,
        prompt: UserInput | str,
        answered: Sequence[PendingCall] = (),
        attachments: Sequence[dict[str, Any]] = (),
    ) -> Any:
        """Run one turn and save the conversation, however the turn ends.

        @mentions add their files to text that the user typed: pass `UserInput.of_typed(text)`. A plain `str` may come
        from a pipe, a file or a model, so that an `@` in it is a character. The pending calls in `answered` are run
        first, at most once, and their results stand before the prompt. `attachments` are content blocks of the prompt,
        such as images.
        """
        await self._go_on()
        await self._report_mode()
        self._recorder.open_turn(prompt.text if isinstance(prompt, UserInput) else prompt)
        self.turn_end.begin()
        self._watched = None
        self._watch()
        if "checkpoints" in self.__dict__:  # else they are unused, and start with this turn
            self.checkpoints.turn = self._recorder.turns
        try:
            expanded = await self.prompt.expand_prompt(prompt)
            if answered:
                results = await run_answered(self.session.coordinator, self.pending_calls, answered)
                expanded = f"{results}\n\n{expanded}" if expanded else results
            if attachments:
                await self._attach(attachments)
            answer = await self._run_turn(expanded)
            self.turn_end.judge(self.session)
            return answer
        finally:
            await self._report_unasked_changes()
            await self._recorder.close_turn(self.session.coordinator.get("context"))

    def _watch(self) -> None:
        """Note the state of files that others run, for the rest of a turn in which commands run unasked."""
        if self.run.mode == AUTO and self.origin is None and self._watched is None:
            self._watched = states((self.prepared.project, *self.run.folders))

    async def _report_unasked_changes(self) -> None:
        before, self._watched = self._watched, None
        if before is None:
            return
        changed = changes(before, states((self.prepared.project, *self.run.folders)))
        if changed:
            await self.session.coordinator.hooks.emit(UNASKED_CHANGE, {"files": [str(path) for path in changed]})

    async def _attach(self, blocks: Sequence[dict[str, Any]]) -> None:
        """Put content blocks before the text of the prompt: in its message, or in one before it.

        A separate message counts as a turn, so it is only for loops that cannot attach blocks to the prompt.
        """
        coordinator = self.session.coordinator
        attach = getattr(coordinator.get("orchestrator"), "attach", None)
        if callable(attach):
            attach(blocks)
        else:
            await maybe_await(coordinator.get("context").add_message({"role": "user", "content": list(blocks)}))

    async def _run_turn(self, prompt: str) -> Any:
        """Run one turn; raise SystemPromptMissingError when a request lacked the prompt, even if the loop hides it."""
        self._delivery.begin_turn()
        try:
            answer = await self.session.execute(prompt)
        except Exception as error:
            self._log_fault(error)
            if self._delivery.failure in (None, error):
                raise
            raise self._delivery.failure from error
        if self._delivery.failure is not None:
            self.session.status.status = "failed"
            self.session.status.last_error = {"message": str(self._delivery.failure)}
            raise self._delivery.failure
        return answer

    def _log_fault(self, error: Exception) -> None:
        """Write the traceback into the log if the code of a module failed; other errors say all there is to know."""
        from amplifier_core.llm_errors import LLMError
        from amplifier_foundation.errors import FoundationError
        from amplifier_foundation.tracebacks import error_record, location

        if not isinstance(error, (FoundationError, LLMError)) and (place := location(error)) is not None:
            self.session.coordinator.log("ERROR", f"The turn failed in {place}", error=error_record(error))

    async def replace_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        """Replace the conversation; the system prompt stays."""
        await self._go_on()
        context = self.session.coordinator.get("context")
        if not messages:
            await maybe_await(context.clear())
        if begun := await self._delivery.give(context, messages):
            await maybe_await(context.set_messages(begun))

    def save_metadata(self, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        """Save a session that has had no turn; a new one with `messages` can be resumed."""
        self._recorder.save_metadata(self.prepared.composed, messages if self.saved is None else ())

    async def save_messages(self) -> None:
        """Save the conversation as it is now, for apps that change it between turns."""
        self._write_held()
        await self._recorder.save_messages(self.session.coordinator.get("context"))

    async def record_event(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event of the app, such as an undone turn."""
        await self._go_on()
        await self.session.coordinator.hooks.emit(event, data)

    def end_logs(self) -> None:
        """Complete and close the logs of the session tree, for a process that ends without its event loop."""
        if self._held is not None:
            return  # nothing was written that would need an end
        from amplifier_foundation.sessions.log import end_log

        for child in self.children.running if self.children is not None else ():
            child.end_logs()
        if self._log is not None:
            end_log(self._log, self.folder)

    # -- start and end --

    async def _connect(self) -> None:
        coordinator, prepared = self.session.coordinator, self.prepared
        self._release = hold((*prepared.package_paths, *prepared.modules.values()), prepared.project)
        coordinator.add_log_sink(self._write_log)
        self._python_log = PythonLog(coordinator)
        self._python_log.connect()
        for name, value in capabilities_of(self).items():
            coordinator.register_capability(name, value)
        if self.children is not None:
            self.children.connect()
        coordinator.register_contributor("observability.events", "app", lambda: list(_EVENTS))
        if self.saved is not None:
            from amplifier_foundation.sessions.resume import past_cost_of

            coordinator.register_contributor("session.cost", "session:past", past_cost_of(self.saved))
        coordinator.register_policy("permission-mode", self._judge_by_mode, _MODE_PRIORITY)
        # Imported for the first decision: most of it is not needed before.
        coordinator.register_policy("rules", lambda action, details: self._judge(self.permissions, action, details))
        for number, permissions in enumerate(self.more_permissions, 1):
            coordinator.register_policy(f"agent-rules-{number}", partial(self._judge, permissions))
        name_modules_that_decide(coordinator)
        if self.origin is not None and self.on_child_event is not None:
            coordinator.hooks.register("*", self._on_own_event, priority=_LAST, name="app-child-events")
        self._recorder.connect(coordinator)
        self.turn_end.connect(coordinator)
        self.budget.connect(coordinator)
        if prepared.resolver is not None or prepared.modules or was_used():
            from amplifier_foundation.sources.module_resolver import PreparedModules

            resolver = prepared.resolver or PreparedModules(prepared.modules)
            if isinstance(resolver, PreparedModules):
                resolver.check = self._check_unprepared
            await coordinator.mount("module-source-resolver", resolver)

    async def _judge_by_mode(self, action: str, details: dict[str, Any]) -> tuple[str, str] | None:
        """Deny what the mode does not allow, and learn what later policies need to know about the tool."""
        if self.run.mode == AUTO:
            await self._sandboxed.learn(self.session.coordinator, details)
        if self.run.mode != READ_ONLY:
            return None
        denied = self.permissions.denial_by_mode(action, details)
        return ("deny", denied) if denied is not None else None

    def _judge(self, permissions: SessionPermissions, action: str, details: dict[str, Any]) -> Any:
        return permissions.policy(action, details, is_confined=self._sandboxed.includes(details))

    def is_allowed_by_person(self, action: str, details: Mapping[str, Any]) -> bool:
        """Return whether the user's rules or mode allow an action, and no other rules restrict it."""
        is_confined = self._sandboxed.includes(details)
        return all(
            permissions.is_allowed_by_person(action, details, is_confined=is_confined)
            for permissions in (self.permissions, *self.more_permissions)
        )

    def _check_unprepared(self, module_id: str) -> None:
        """Refuse a module that is loaded from another session's source; others may be installed."""
        found = of_other_session(module_id, self.prepared.modules.values())
        if found is not None:
            raise ImportError(
                f"module {module_id!r} is loaded from {found}, for another session of this process: run this one in "
                "another process"
            )

    async def _go_on(self) -> None:
        """Write what was held while nothing happened in a resumed session: its start, and a repaired conversation."""
        if self._held is not None:
            self._write_held()
            await self._recorder.save_messages(self.session.coordinator.get("context"))

    def _write_held(self) -> None:
        held, self._held = self._held, None
        for record in held or ():
            self._write_log(record)

    def _write_log(self, record: dict[str, Any]) -> None:
        if self._held is not None:
            if not str(record.get("event")).startswith(_WORK):
                self._held.append(record)
                return
            self._write_held()  # apps may run tools before the first prompt
        assert self._log is not None
        self._log.write(record)
        self._recorder.numbers.note(record, self._log.seq)

    def _on_own_event(self, event: str, data: dict[str, Any]) -> None:
        if self.origin is not None and self.on_child_event is not None:
            self.on_child_event(self.origin.facts, event, data)

    async def _fill_context(self) -> None:
        """Give the context the system prompt and the messages of a resumed session."""
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
        from amplifier_foundation.sessions.resume import add_missing_messages

        await add_missing_messages(context, self.saved.messages)
        self._recorder.resume(self.saved.stored, self.saved.messages)

    def _system_prompt(self) -> SystemPrompt:
        from amplifier_foundation.prompt.access import PromptAccess
        from amplifier_foundation.prompt.mention_resolver import MentionResolver

        composed, prepared = self.prepared.composed, self.prepared
        namespaces = {name: Path(root) for name, root in composed.namespaces.items()}
        resolver = MentionResolver(namespaces, prepared.project, prepared.home)
        return SystemPrompt(
            composed.instruction,
            {name: Path(file) for name, file in composed.context.items()},
            PromptAccess(
                resolver,
                lambda: [one.current for one in (self.permissions, *self.more_permissions)],
                lambda: is_trusted(prepared, self.given_trust),
                composed.texts,
            ),
            self._on_mentions,
            has_project_instructions=prepared.has_project_instructions,
            added=lambda: self.session.coordinator.get_capability(_ADDED_CONTEXT) or (),
        )

    async def _on_mentions(self, payload: dict[str, Any]) -> None:
        await self.session.coordinator.hooks.emit(MENTIONS_RESOLVED, payload)

    async def _close(self) -> None:
        try:
            if self.children is not None:
                await self.children.close()
            await self.session.cleanup()
        finally:
            self.is_over = True
            RUNNING.pop(self.session_id, None)
            self._release()
            if self._python_log is not None:
                self._python_log.disconnect()
            if self._log is not None:
                self._log.close()
                self._log = None


class TurnEnd:
    """How the last turn of a session ended: as its orchestrator reports it, and whether the budget ended it."""

    def __init__(self, budget: SessionBudget) -> None:
        self._budget = budget
        #: The data of `orchestrator:complete`, empty before it.
        self.reported: Mapping[str, Any] = {}

    def connect(self, coordinator: Any) -> None:
        coordinator.hooks.register(ORCHESTRATOR_COMPLETE, self._on_complete, priority=_LATE, name="app-turn-end")

    def begin(self) -> None:
        self.reported = {}

    @property
    def used_up(self) -> str | None:
        """The limit that ended the turn, as text; None if the budget did not end it.

        A turn that completed was not ended by limits that other sessions reached meanwhile.
        """
        return None if self.reported.get("status") in _NOT_ENDED_BY_BUDGET else self._budget.refused

    def judge(self, session: AmplifierSession) -> None:
        """Mark a session that the budget ended as failed: for the kernel, an orchestrator that returns succeeded."""
        if (reason := self.used_up) is not None:
            session.status.status = "failed"
            session.status.last_error = {"message": reason}

    def _on_complete(self, event: str, data: dict[str, Any]) -> None:
        self.reported = data
