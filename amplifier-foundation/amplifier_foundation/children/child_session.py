"""Run one task in a child session, close the session whatever happens, and report what it cost to its parent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.bounded_call import DeadlineExceeded, call, running_task
from amplifier_foundation.children.errors import ChildBusyError, ChildError, ChildFailedError, ChildRefusedError
from amplifier_foundation.children.results import Result, children_prefix, save_result
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.metadata import load_metadata
from amplifier_foundation.sessions.origin import Origin
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.sessions.store import folder_names
from amplifier_foundation.usage.history import current_facts, total_cost
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.tasks import run_bounded, run_to_end
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.log.files import SessionLogBusy
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_core.cancellation import CancellationToken
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession

logger = logging.getLogger(__name__)

#: How long a child with an answer may take to close. Hooks have deadlines of their own, the cleanup of modules has not.
_CLOSE_SECONDS: Final = 60.0
#: How long the contributors to `session.cost` may take; after that, the account of the child counts.
_COST_SECONDS: Final = 2.0
#: The status of a child that its budget stopped, and the code of errors from providers that it stopped.
_EXHAUSTED: Final = "budget_exhausted"


class Task(NamedTuple):
    """What a child is to do."""

    prompt: str
    #: Identifies the task when the call is repeated.
    hash: str
    #: The part of its parent's conversation that a new child begins with.
    messages: Sequence[Mapping[str, Any]] = ()
    #: Warnings for the child's log and the caller.
    warnings: tuple[str, ...] = ()


class ChildSession:
    """A child session from its start to its end."""

    def __init__(
        self, parent: SessionRuntime, origin: Origin, prepared: Prepared, saved: SavedSession | None = None
    ) -> None:
        """Prepare the session; raises what SessionRuntime raises."""
        self._origin, self._parent = origin, parent
        #: Whether a contributor to `session.cost` did not answer in time: they are not called again.
        self._is_cost_overdue = False
        #: What the child and its descendants had cost when it ended.
        self.spent: str | None = None
        #: What they had cost before this call, None for a new child.
        self.before: str | None = None
        coordinator = parent.session.coordinator
        self.runtime = SessionRuntime(
            prepared,
            session_id=origin.facts.session_id,
            saved=saved,
            approval_system=coordinator.approval_system,
            display_system=coordinator.display_system,
            environ=parent.environ,
            allow_missing_modules=parent.allow_missing_modules,
            trust=parent.given_trust or False,
            origin=origin,
            on_child_event=parent.on_child_event,
            spawner=parent.spawner,
        )

    @property
    def cancellation(self) -> CancellationToken:
        return self.runtime.session.coordinator.cancellation

    async def run(self, task: Task) -> Result:
        """Start the session, run the task and close the session, whatever happens.

        Raises ChildRefusedError, ChildBusyError, ChildFailedError; a cancellation is raised when everything is closed.
        """
        started = time.monotonic()
        runtime = self.runtime
        identity = self._origin.facts.session_id
        try:
            await runtime.__aenter__()
        except asyncio.CancelledError:
            # It can be resumed by its id, so it must know its task.
            runtime.save_metadata([*_without_instructions(task.messages), {"role": "user", "content": task.prompt}])
            self._save(task, self._facts("", "cancelled"))
            raise
        except SessionLogBusy as error:
            raise ChildBusyError(f"the session {identity} is running already: wait for it, or start another") from error
        except ModulesMissingError as error:
            raise self._not_started(task, ChildRefusedError(identity, error.failures)) from error
        except (Exception, SystemExit) as error:
            text = f"the session {identity} could not be started: {_describe(error)}"
            raise self._not_started(task, ChildFailedError(identity, text)) from error
        try:
            return await self._work(task, started)
        except BaseException as error:
            status = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
            self._save(task, self._facts(str(error), status))
            raise
        finally:
            await run_to_end(self._close_in_time)

    def _not_started(self, task: Task, error: ChildError) -> ChildError:
        """Save whose child it was and why it did not start."""
        self.runtime.save_metadata()
        self._save(task, self._facts(str(error), "error"))
        return error

    async def _close_in_time(self) -> None:
        """Close the session; a module that fails or hangs while closing must not cost the answer."""
        identity = self._origin.facts.session_id
        try:
            await run_bounded(self._close, timeout=_CLOSE_SECONDS)
        except DeadlineExceeded:
            self._warn(
                f"the session {identity} was not closed after {_CLOSE_SECONDS:g} s: a module is still running and "
                "was abandoned"
            )
        except Exception as error:
            self._warn(f"the session {identity} could not be closed properly: {_describe(error)}", error)

    def _warn(self, text: str, error: BaseException | None = None) -> None:
        """Log a warning in the parent's log, since that of the child is closed, and in the program's."""
        logger.warning("%s", text, exc_info=error)
        self._parent.session.coordinator.log("WARNING", text)

    async def _close(self) -> None:
        try:
            self.spent = await self.cost()
        finally:
            await self.runtime.__aexit__(None, None, None)

    async def cost(self) -> str | None:
        """Return what the child and its descendants cost so far; None when unknown.

        When a module does not answer in time, it is what the child's account has counted.
        """
        coordinator = self.runtime.session.coordinator
        if not self._is_cost_overdue:
            try:
                costs = await call(running_task(), _COST_SECONDS, coordinator.collect_contributions, "session.cost")
                return total_cost(costs)
            except DeadlineExceeded:
                self._is_cost_overdue = True
                coordinator.log("WARNING", f"a contributor to session.cost did not answer in {_COST_SECONDS:g} s")
        return str(Decimal(self.before or 0) + self.runtime.account.total.known_cost)

    async def _work(self, task: Task, started: float) -> Result:
        runtime, identity = self.runtime, self._origin.facts.session_id
        coordinator = runtime.session.coordinator
        for warning in task.warnings:
            coordinator.log("WARNING", warning)
        await self._add_messages(task.messages)
        if runtime.saved is not None:
            self.before = await self.cost() or "0"
        try:
            answer = await runtime.execute(task.prompt)
        except asyncio.CancelledError:
            # The caller was cancelled; without a request to stop, the kernel takes that for a failure.
            runtime.session.status.status = "cancelled"
            raise
        except (Exception, SystemExit) as error:  # a module that exits ends its own session only
            if getattr(error, "code", None) == _EXHAUSTED and runtime.turn_end.used_up is not None:
                # The budget stopped the provider: the same end as when it stops the loop.
                result = await self._result("", task, started)
                self._save(task, result)
                return result
            failure = ChildFailedError(identity, f"the session {identity} failed: {_describe(error)}")
            failure.metadata = await self._spent(started)
            raise failure from error
        result = await self._result(answer, task, started)
        self._save(task, result)
        return result

    async def _add_messages(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Give the child a part of its parent's conversation, every call in it with its result."""
        if not messages:
            return
        from amplifier_foundation.sessions.transcript import repair_history

        context = self.runtime.session.coordinator.get("context")
        for message in repair_history(_without_instructions(messages)).messages:
            await maybe_await(context.add_message(message))

    async def _result(self, answer: Any, task: Task, started: float) -> Result:
        runtime, ended = self.runtime, self.runtime.turn_end.reported
        given = ended.get("metadata")
        metadata = {**(given if isinstance(given, Mapping) else {}), **await self._spent(started)}
        if task.warnings:
            metadata["warnings"] = list(task.warnings)
        status = str(ended.get("status") or "success")
        if (reason := runtime.turn_end.used_up) is not None:
            status, metadata["reason"] = _EXHAUSTED, reason
        elif runtime.session.coordinator.cancellation.is_cancelled:
            status = "cancelled"
        return self._facts(answer if isinstance(answer, str) else str(answer), status, metadata)

    async def _spent(self, started: float) -> dict[str, Any]:
        """Return what this call used; for a resumed child, also what it has used in total."""
        runtime, total = self.runtime, await self.cost()
        totals = {} if self.before is None else {"session_usage": runtime.usage, "session_cost_usd": total}
        return {
            "agent": self._origin.facts.agent,
            "provider": runtime.provider,
            "model": runtime.model,
            "usage": call_usage(runtime.account.own, runtime.usage),
            "cost_usd": cost_since(self.before, total),
            **totals,
            "duration_ms": round((time.monotonic() - started) * 1000),
        }

    def _facts(self, output: str, status: str, metadata: Mapping[str, Any] | None = None) -> Result:
        turns = self.runtime.turn_end.reported.get("turn_count")
        return {
            "output": output,
            "session_id": self._origin.facts.session_id,
            "status": status,
            "turn_count": turns if isinstance(turns, int) else 1,
            "metadata": dict(metadata or {}),
        }

    def _save(self, task: Task, result: Result) -> None:
        runtime, call = self.runtime, self._origin.facts.tool_call_id
        try:
            save_result(runtime.folder, task.hash, result, lambda value: runtime.redactor.scrub(value).value, call)
        except OSError as error:
            # The answer is worth more than its copy; a repeated call finds it in the conversation.
            runtime.session.coordinator.log("WARNING", f"the result of {runtime.folder} cannot be saved: {error}")


class ChildCosts:
    """Contribute what each child of a session costs to `session.cost`, as `delegate:<id>`.

    A session may start any number of children: only the id and the cost of a finished one are kept.
    """

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        #: The running child, or what a finished one had cost; None when only its metadata have it.
        self._known: dict[str, ChildSession | str | None] = {}
        #: What resumed children had cost before their last call.
        self._before: dict[str, str] = {}

    def is_counted(self, session_id: str) -> bool:
        """Return whether the cost of a child is counted here."""
        return self._known.get(session_id) is not None

    @property
    def running(self) -> list[ChildSession]:
        """The running children; may be read from another thread."""
        return [one for one in list(self._known.values()) if isinstance(one, ChildSession)]

    def begin(self, session_id: str, child: ChildSession) -> None:
        """Record that a child starts; a resumed one continues to count where it had stopped."""
        before = self._known.get(session_id)
        child.spent = child.before = before if isinstance(before, str) else None
        if session_id not in self._known:
            contributor = partial(self.cost, session_id)
            self._coordinator.register_contributor("session.cost", f"delegate:{session_id}", contributor)
        self._known[session_id] = child

    def end(self, session_id: str, child: ChildSession) -> None:
        """Record a finished child. If it never reported its cost, its metadata have it."""
        self._known[session_id] = child.spent
        if child.before is not None:
            self._before[session_id] = child.before

    async def cost(self, session_id: str) -> dict[str, str] | None:
        """Return what a child has cost, and a resumed one also in its last call; None when unknown."""
        known = self._known[session_id]
        if isinstance(known, ChildSession):
            spent, before = await known.cost(), known.before
        else:
            spent, before = known, self._before.get(session_id)
        in_call = cost_since(before, spent) if before is not None else None
        costs = {"cost_usd": spent, "call_cost_usd": in_call}
        return {name: amount for name, amount in costs.items() if amount is not None} or None


def past_cost(place: Path, parent_id: str, is_counted: Callable[[str], bool]) -> str | None:
    """Return what the descendants of a session have cost by their metadata, without those that `is_counted` knows.

    A session that is counted elsewhere counts there with its descendants. Raises OSError.
    """
    used = UsageRecord()
    names = folder_names(str(place))
    pending = [parent_id]
    while pending:
        above = pending.pop()
        for name in names:
            if not name.startswith(children_prefix(above)) or is_counted(name):
                continue
            facts = load_metadata(place / name).data
            if facts.get("parent_id") == above:
                pending.append(name)
                used += UsageRecord.of_facts(current_facts(place / name, facts))
    return str(used.known_cost) if used.priced else None


def cost_since(before: str | None, now: str | None) -> str | None:
    """Return the difference of two costs, None when unknown; never negative."""
    return now if now is None or before is None else str(max(Decimal(0), Decimal(now) - Decimal(before)))


def call_usage(own: UsageRecord, session: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call used; a count that the session has and the call did not raise is zero, not missing."""
    used = own.facts()
    return {**dict.fromkeys(UsageRecord.of_facts(session).tokens(), 0), **used}


def _without_instructions(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from amplifier_foundation.sessions.resume import conversation

    return conversation([dict(message) for message in messages])


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, FoundationError) else f"{type(error).__name__}: {error}"
