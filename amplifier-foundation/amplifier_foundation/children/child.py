"""Run one task in one child session of this process, and see that all of it ends with it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.bounded_call import DeadlineExceeded, call, running_task
from amplifier_foundation.children.cost import cost_since
from amplifier_foundation.children.errors import ChildBusyError, ChildError, ChildFailedError, ChildRefusedError
from amplifier_foundation.children.origin import OnChildEvent, Origin
from amplifier_foundation.children.stored import Result, keep_result
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.usage.history import total_cost
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.tasks import run_bounded, run_to_end
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.log import SessionLogBusy

if TYPE_CHECKING:
    from amplifier_core.cancellation import CancellationToken
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.trust.given import GivenTrust

logger = logging.getLogger(__name__)

#: How long a child that has its answer may take to end. Hooks have a deadline of their own, what modules clean up not.
_CLOSE_SECONDS: Final = 60.0
#: How long those may take who tell what a child costs; then it is what its budget has counted.
_COST_SECONDS: Final = 2.0
#: The end of a child that was not let go on; errors of providers that were not let ask have it as their code.
_USED_UP: Final = "budget_exhausted"


@dataclass(frozen=True)
class Task:
    """What a child is to do."""

    prompt: str
    #: What tells the task from others when the call is made again.
    hash: str
    #: The part of its parent's conversation that a new child begins with.
    messages: Sequence[Mapping[str, Any]] = ()
    #: What the child's log and the caller should know.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What a child finds where it runs: who answers and shows, the variables, and how strict its parent is."""

    approval_system: Any = None
    display_system: Any = None
    environ: Mapping[str, str] = field(default_factory=dict)
    allow_missing_modules: bool = False
    trust: GivenTrust | None = None
    on_child_event: OnChildEvent | None = None
    #: What takes down in the parent's log what the child cannot say any more.
    warn: Callable[[str], None] | None = None

    @classmethod
    def of(cls, parent: SessionRuntime) -> Surroundings:
        """Return those of a session, as they are now."""
        coordinator = parent.session.coordinator
        return cls(
            coordinator.approval_system,
            coordinator.display_system,
            parent.environ,
            parent.allow_missing_modules,
            parent.given_trust,
            parent.on_child_event,
            lambda text: coordinator.log("WARNING", text),
        )


class Child:
    """A child session from its start to its end."""

    def __init__(
        self, surroundings: Surroundings, origin: Origin, prepared: Prepared, saved: SavedSession | None = None
    ) -> None:
        """Prepare the session; raises what SessionRuntime raises."""
        self._origin, self._surroundings = origin, surroundings
        #: Whether somebody who was to tell what the child costs did not answer: nobody is asked again.
        self._is_cost_untold = False
        #: What the child and all below it had cost when it ended.
        self.spent: str | None = None
        #: What they had cost before this call, None for a child that is new.
        self.before: str | None = None
        self.runtime = SessionRuntime(
            prepared,
            session_id=origin.facts.session_id,
            saved=saved,
            approval_system=surroundings.approval_system,
            display_system=surroundings.display_system,
            environ=surroundings.environ,
            allow_missing_modules=surroundings.allow_missing_modules,
            trust=surroundings.trust or False,
            origin=origin,
            on_child_event=surroundings.on_child_event,
        )

    @property
    def cancellation(self) -> CancellationToken:
        """Return what carries the wish to stop to the child."""
        return self.runtime.session.coordinator.cancellation

    async def run(self, task: Task) -> Result:
        """Bring the session up, let it do the task and take it down, whatever happens.

        Raises ChildRefusedError, ChildBusyError, ChildFailedError; a cancellation is raised when everything is closed.
        """
        started = time.monotonic()
        runtime = self.runtime
        identity = self._origin.facts.session_id
        try:
            await runtime.__aenter__()
        except asyncio.CancelledError:
            # Whoever stopped it is told that it goes on by its id: then it must know what it was asked for.
            runtime.save_metadata([*_without_instructions(task.messages), {"role": "user", "content": task.prompt}])
            self._keep(task, self._facts("", "cancelled"))
            raise
        except SessionLogBusy as error:
            raise ChildBusyError(f"the session {identity} is running already: wait for it, or start another") from error
        except ModulesMissingError as error:
            raise self._not_started(task, ChildRefusedError(identity, error.failures)) from error
        except (Exception, SystemExit) as error:
            text = f"the session {identity} could not be started: {_said(error)}"
            raise self._not_started(task, ChildFailedError(identity, text)) from error
        try:
            return await self._work(task, started)
        except BaseException as error:
            status = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
            self._keep(task, self._facts(str(error), status))
            raise
        finally:
            await run_to_end(self._close_in_time)

    def _not_started(self, task: Task, error: ChildError) -> ChildError:
        """Leave a note of whose child it was to be and why it is none."""
        self.runtime.save_metadata()
        self._keep(task, self._facts(str(error), "error"))
        return error

    async def _close_in_time(self) -> None:
        """Take the session down; what its modules do on the way costs no answer.

        What they do not let go of in time is left behind.
        """
        identity = self._origin.facts.session_id
        try:
            await run_bounded(self._close, timeout=_CLOSE_SECONDS)
        except DeadlineExceeded:
            self._warn(
                f"the session {identity} was not down after {_CLOSE_SECONDS:g} s: a module does not end what it has "
                "begun, and is left behind"
            )
        except Exception as error:
            self._warn(f"the session {identity} could not be taken down in order: {_said(error)}", error)

    def _warn(self, text: str, error: BaseException | None = None) -> None:
        """Tell what went wrong in the end: in the program's log, and in that of the parent, for this one is closed."""
        logger.warning("%s", text, exc_info=error)
        if self._surroundings.warn is not None:
            self._surroundings.warn(text)

    async def _close(self) -> None:
        try:
            self.spent = await self.cost()
        finally:
            await self.runtime.__aexit__(None, None, None)

    async def cost(self) -> str | None:
        """Return what the child and all below it cost so far; None when nobody knows.

        A module that does not answer holds nobody up: then it is what this process has counted for the child's budget.
        """
        coordinator = self.runtime.session.coordinator
        if not self._is_cost_untold:
            try:
                costs = await call(running_task(), _COST_SECONDS, coordinator.collect_contributions, "session.cost")
                return total_cost(costs)
            except DeadlineExceeded:
                self._is_cost_untold = True
                coordinator.log("WARNING", f"who tells session.cost did not answer in {_COST_SECONDS:g} s")
        return str(Decimal(self.before or 0) + self.runtime.account.total.known_cost)

    async def _work(self, task: Task, started: float) -> Result:
        runtime, identity = self.runtime, self._origin.facts.session_id
        coordinator = runtime.session.coordinator
        for warning in task.warnings:
            coordinator.log("WARNING", warning)
        await self._begin_with(task.messages)
        if runtime.saved is not None:
            self.before = await self.cost() or "0"
        try:
            answer = await runtime.execute(task.prompt)
        except asyncio.CancelledError:
            # Whoever waited for it has given up; the kernel takes that for a failure when nobody asked it to stop.
            runtime.session.status.status = "cancelled"
            raise
        except (Exception, SystemExit) as error:  # a module that wants to end the program ends its own session
            if getattr(error, "code", None) == _USED_UP and runtime.turn_end.used_up is not None:
                # A provider that was not let ask: the same end as that of a loop that was not.
                result = await self._result("", task, started)
                self._keep(task, result)
                return result
            failure = ChildFailedError(identity, f"the session {identity} failed: {_said(error)}")
            failure.metadata = await self._spent(started)
            raise failure from error
        result = await self._result(answer, task, started)
        self._keep(task, result)
        return result

    async def _begin_with(self, messages: Sequence[Mapping[str, Any]]) -> None:
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
            status, metadata["reason"] = _USED_UP, reason
        elif runtime.session.coordinator.cancellation.is_cancelled:
            status = "cancelled"
        return self._facts(answer if isinstance(answer, str) else str(answer), status, metadata)

    async def _spent(self, started: float) -> dict[str, Any]:
        """Return what this call has taken; of a child that goes on, beside what it has taken in all."""
        runtime, total = self.runtime, await self.cost()
        in_all = {} if self.before is None else {"session_usage": runtime.usage, "session_cost_usd": total}
        return {
            "agent": self._origin.facts.agent,
            "provider": runtime.provider,
            "model": runtime.model,
            "usage": call_usage(runtime.account.own, runtime.usage),
            "cost_usd": cost_since(self.before, total),
            **in_all,
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

    def _keep(self, task: Task, result: Result) -> None:
        runtime, call = self.runtime, self._origin.facts.tool_call_id
        try:
            keep_result(runtime.folder, task.hash, result, lambda value: runtime.redactor.scrub(value).value, call)
        except OSError as error:
            # The answer is worth more than its copy; a call that is made again finds it in the conversation.
            runtime.session.coordinator.log("WARNING", f"the result of {runtime.folder} cannot be kept: {error}")


def call_usage(own: UsageRecord, session: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call used; a count that the session has and the call did not raise is zero and not missing."""
    used = own.facts()
    return {**dict.fromkeys(UsageRecord.of_facts(session).tokens(), 0), **used}


def _without_instructions(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from amplifier_foundation.sessions.resume import conversation

    return conversation([dict(message) for message in messages])


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, FoundationError) else f"{type(error).__name__}: {error}"
