"""Spawn and resume the children of one session: find the child of a repeated call, or start one, and await its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.children.capabilities import SELF, SpawnRequest
from amplifier_foundation.children.child_session import ChildCosts, ChildSession, Task, past_cost
from amplifier_foundation.children.errors import ChildBusyError, ChildFailedError, ChildUnknownError, SpawnError
from amplifier_foundation.children.plan import AgentRoster
from amplifier_foundation.children.prepare import ChildPreparation
from amplifier_foundation.children.results import Result, child_id, is_child_id, save_result, stored_result, task_hash
from amplifier_foundation.children.resume import (
    FROM_CHILD,
    continue_prompt,
    load_child,
    load_interrupted,
    prepare_again,
    unsaved_answer,
)
from amplifier_foundation.sessions.metadata import load_metadata
from amplifier_foundation.sessions.origin import ChildFacts, Origin
from amplifier_foundation.sessions.plan import planned_budget
from amplifier_foundation.sessions.resume import RECOVERED
from amplifier_kit.engine.current_call import call_in_progress

if TYPE_CHECKING:
    from amplifier_foundation.children.model_roles import ModelRoles
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.sessions.runtime import SessionRuntime

#: How long children that are running when their parent ends may take to close.
_CLOSE_SECONDS: Final = 5.0
#: Marks of results that the model has not seen yet.
_UNSEEN: Final = frozenset({"synthetic", RECOVERED, FROM_CHILD})


class ChildSessions:
    """The children of one running session."""

    def __init__(self, parent: SessionRuntime, roles: ModelRoles) -> None:
        self._parent = parent
        self._preparation = ChildPreparation(parent, roles)
        self._roster = AgentRoster(parent.prepared.composed.plan, parent.session.config, parent.agents_at_start)
        self._running: dict[str, _Running] = {}
        self._costs = ChildCosts(parent.session.coordinator)
        #: How often each call id was answered before: an id that is used again, as after `/clear`, is a new call.
        self._answered = Counter(_answered_calls(parent.saved))
        #: In which turn this process answered each last.
        self._answered_in: dict[str, int] = {}

    def check_parent(self, given: Any) -> None:
        """Raise SpawnError when the caller means another session than this one, or this one has ended."""
        if self._parent.is_over:
            raise SpawnError(f"the session {self._parent.session_id} has ended: it cannot start children")
        named = given if isinstance(given, str) else getattr(given, "session_id", None)
        if isinstance(named, str) and named != self._parent.session_id:
            raise SpawnError(
                f"this capability starts children of session {self._parent.session_id}, not of {named}: use its own"
            )

    async def spawn(self, request: SpawnRequest, agents: Mapping[str, Any] | None = None) -> Result:
        """Return the result of a task; see `SpawnCapability`.

        A child that did this task already is not run again: its result is returned. An interrupted one is resumed.
        """
        if request.use_subprocess:
            text = f"use_subprocess is ignored: the session of agent {request.agent!r} runs in this process"
            self._parent.session.coordinator.log("WARNING", text)
        agent = self._roster.definition(request.agent, agents)
        given, request = request, self._with_call(request)
        task = self._task(request)
        # A caller that names a call means its child. One that does not, and starts the same twice at once, means two.
        identity = self._identity(request, task, is_shared=_named_call(given) is not None)
        work = self._find_or_start(identity, task, request, agent)
        result = await self._once(identity, request.agent, task, work, request.timeout)
        return self._answered_with(request.tool_call_id, result)

    async def spawn_prepared(self, request: SpawnRequest, prepared: Prepared) -> Result:
        """Return the result of a task in a child whose parts an app has prepared; else as `spawn`.

        The child works in the project of `prepared`, and keeps to the rules of this session.
        """
        self.check_parent(None)
        task = self._task(request)
        identity = self._identity(request, task, is_shared=False)
        work = self._find_or_start(identity, task, request, {}, prepared)
        return await self._once(identity, request.agent, task, work, request.timeout)

    async def resume(self, session_id: Any, request: SpawnRequest) -> Result:
        """Return a child's result of another task; raises ChildUnknownError for an unknown child."""
        request = self._with_call(request)
        saved = await load_child(self._place, session_id, self._parent.session_id)
        task = task_hash(*filter(None, (request.tool_call_id, self._task(request))))
        work = self._resume(saved, task, request, is_new_task=True)
        result = await self._once(saved.session_id, _agent_of(saved), task, work, request.timeout)
        return self._answered_with(request.tool_call_id, result)

    def child_id(self, agent: str, tool_call_id: str | None = None, instruction: str | None = None) -> str:
        """Return the id of the child of a call."""
        task = task_hash(instruction) if instruction is not None else None
        return self._call_id(agent, tool_call_id, task)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent of a child by its metadata; None for an unknown child."""
        if not is_child_id(session_id) or not (self._place / session_id).is_dir():
            return None
        facts = load_metadata(self._place / session_id).data
        agent = facts.get("agent_name") if facts.get("parent_id") == self._parent.session_id else None
        return agent if isinstance(agent, str) else None

    async def past_cost(self) -> dict[str, str] | None:
        """Return what descendants of a resumed session have cost that this process has not run."""
        cost = await asyncio.to_thread(past_cost, self._place, self._parent.session_id, self._costs.is_counted)
        return {"cost_usd": cost} if cost is not None else None

    @property
    def running(self) -> list[SessionRuntime]:
        """The sessions of the running children; may be read from another thread."""
        return [child.runtime for child in self._costs.running]

    async def close(self) -> None:
        """Cancel the children that are still running: nothing awaits their results now."""
        waiting = [one.caller for one in self._running.values() if one.caller is not None]
        for caller in waiting:
            caller.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_SECONDS)

    # -- finding the child of a call --

    @property
    def _place(self) -> Path:
        return self._parent.folder.parent

    def _with_call(self, request: SpawnRequest) -> SpawnRequest:
        """Return a request with the call that it was made in, if the caller or the loop names it."""
        if request.tool_call_id is not None:
            return request
        is_named = _named_call(request) is not None
        call = request.session_metadata if is_named else call_in_progress(self._parent.session.coordinator)
        if call is None or not isinstance(call.get("tool_call_id"), str):
            return request
        group = call.get("parallel_group_id")
        return replace(
            request,
            tool_call_id=call["tool_call_id"],
            parallel_group_id=group if isinstance(group, str) else request.parallel_group_id,
        )

    def _task(self, request: SpawnRequest) -> str:
        """Return the hash of a task: of its words, and how often its call's id was used before."""
        times = self._times(request.tool_call_id)
        return task_hash(request.instruction, str(times)) if times else task_hash(request.instruction)

    def _identity(self, request: SpawnRequest, task: str, *, is_shared: bool) -> str:
        if request.sub_session_id is None:
            return self._call_id(request.agent, request.tool_call_id, task, is_shared=is_shared)
        if not is_child_id(request.sub_session_id) or request.sub_session_id == self._parent.session_id:
            raise SpawnError(f"sub_session_id {request.sub_session_id!r} cannot be the id of a child")
        return request.sub_session_id

    def _call_id(self, agent: str, call: str | None, task: str | None, *, is_shared: bool = True) -> str:
        """Return the id by call, and by more when the call has started other children already.

        A child of that agent with the same task has the id already, unless it is running and must not be shared.
        """
        times = self._times(call)
        distinct = (str(times),) if times else ()
        identity = child_id(self._parent.session_id, call, agent, *distinct)
        if call is None or task is None:
            return identity
        for more in _distinctions(agent, task):
            if self._known(identity) in (None, (agent, task)) and (is_shared or identity not in self._running):
                break
            identity = child_id(self._parent.session_id, call, agent, *distinct, *more)
        return identity

    def _times(self, call: str | None) -> int:
        """Return how often this call id was used before the current call."""
        return 0 if call is None else self._answered[call] + self._was_answered_before(call)

    def _was_answered_before(self, call: str) -> bool:
        return self._answered_in.get(call, self._parent.turns) < self._parent.turns

    def _answered_with(self, call: str | None, result: Result) -> Result:
        if call is not None:
            self._answered[call] += self._was_answered_before(call)
            self._answered_in[call] = self._parent.turns
        return result

    def _known(self, identity: str) -> tuple[str, str] | None:
        """Return the agent and the first task of a child; None if the child or they are unknown."""
        folder = self._place / identity
        if identity in self._running:
            return self._running[identity].agent, self._running[identity].task
        if not folder.is_dir():
            return None
        facts = load_metadata(folder).data
        agent, task = facts.get("agent_name"), facts.get("task_sha256")
        return (agent, task) if isinstance(agent, str) and isinstance(task, str) else None

    # -- running the child --

    async def _once(
        self, identity: str, agent: str, task: str, work: Coroutine[Any, Any, Result], timeout: float | None
    ) -> Result:
        """Run a child, or wait for the one that does the same task already; raises ChildBusyError for another task."""
        if identity in self._running:
            work.close()
            return await self._running[identity].result_of(identity, agent, task)
        running = self._running[identity] = _Running(agent, task, asyncio.current_task())
        future = running.future
        try:
            result = await _in_time(work, identity, timeout)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # retrieved: the caller gets it
            raise
        finally:
            del self._running[identity]
        future.set_result(result)
        return result

    async def _find_or_start(
        self,
        identity: str,
        task: str,
        request: SpawnRequest,
        agent: Mapping[str, Any],
        given: Prepared | None = None,
    ) -> Result:
        folder = self._place / identity
        if folder.is_dir():
            self._check_agent(identity, request.agent)
            if (stored := stored_result(folder, task)) is not None:
                return stored
            saved = await load_interrupted(folder, self._parent.session_id)
            if saved is not None:
                is_new_task = saved.metadata.get("task_sha256") != task
                return await self._resume(saved, task, request, is_new_task=is_new_task)
        facts = self._facts(identity, request, request.agent)
        prepare = self._preparation
        if given is not None:
            prepared, warnings, is_chosen = await prepare.given(request, given)
        else:
            prepared, warnings, is_chosen = await prepare.prepared(request, agent, self._roster.all())
        metadata = prepare.metadata(facts, request, agent, prepared, task)
        self_depth = prepare.self_depth(request)
        origin = prepare.origin(facts, prepared, agent, self_depth, metadata, is_provider_chosen=is_chosen)
        if given is not None:
            origin = replace(origin, working_dir=str(given.project))
        work = Task(request.instruction, task, request.parent_messages, warnings)
        return await self._run(origin, prepared, None, work, agent)

    def _check_agent(self, identity: str, agent: str) -> None:
        """Raise ChildUnknownError when the child of an id has another agent."""
        known = self.agent_of(identity)
        if known is not None and known != agent:
            raise ChildUnknownError(f"the session {identity} is of agent {known!r}, not of {agent!r}: use another id")

    async def _resume(self, saved: SavedSession, task: str, request: SpawnRequest, *, is_new_task: bool) -> Result:
        """Resume a child with its next task, or with the one in which it was interrupted."""
        if (stored := stored_result(saved.folder, task)) is not None and request.tool_call_id is not None:
            return stored
        if not is_new_task and (answer := unsaved_answer(saved, task)) is not None:
            with suppress(OSError):  # then a repeated call finds it in the conversation again
                scrub = self._parent.redactor.scrub
                save_result(saved.folder, task, answer, lambda value: scrub(value).value, request.tool_call_id)
            return answer
        prompt = request.instruction if is_new_task else continue_prompt(saved, request.instruction)
        prepared, warnings = prepare_again(saved, self._parent.prepared)
        agent, depth = saved.metadata.get("agent_overlay"), saved.metadata.get("self_delegation_depth")
        facts = self._facts(saved.session_id, request, _agent_of(saved))
        self_depth = depth if isinstance(depth, int) else 0
        origin = self._preparation.origin(facts, prepared, agent, self_depth, {}, is_provider_chosen=True)
        return await self._run(origin, prepared, saved, Task(prompt, task, (), warnings), agent)

    async def _run(
        self, origin: Origin, prepared: Prepared, saved: SavedSession | None, task: Task, agent: Any
    ) -> Result:
        """Run a child under the budget and the cancellation of its parent, and report its cost there."""
        identity = origin.facts.session_id
        limits = planned_budget(agent) if isinstance(agent, Mapping) else {}
        with self._parent.budget.open_child(origin.facts.agent, limits) as budget:
            child = ChildSession(self._parent, replace(origin, budget=budget), prepared, saved)
            self._costs.begin(identity, child)
            token = self._parent.session.coordinator.cancellation
            token.register_child(child.cancellation)
            try:
                return await child.run(task)
            finally:
                token.unregister_child(child.cancellation)
                self._costs.end(identity, child)

    def _facts(self, identity: str, request: SpawnRequest, agent: str) -> ChildFacts:
        above, depth = self._parent.session_id, self._preparation.depth()
        return ChildFacts(identity, above, agent, depth, request.tool_call_id, request.parallel_group_id)


class _Running:
    """A running child: its agent and task, the caller that awaits it, and its result for others with the same task."""

    def __init__(self, agent: str, task: str, caller: asyncio.Task[Any] | None) -> None:
        self.agent, self.task, self.caller = agent, task, caller
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def result_of(self, identity: str, agent: str, task: str) -> Result:
        """Await the result.

        Raises ChildBusyError when the child has another agent or task, ChildFailedError when it is cancelled.
        """
        if (agent, task) != (self.agent, self.task):
            raise ChildBusyError(f"the session {identity} is running another task: wait for it")
        await asyncio.wait([self.future])
        if self.future.cancelled():
            raise ChildFailedError(identity, f"the session {identity} was cancelled by the caller that had started it")
        return self.future.result()


async def _in_time(work: Coroutine[Any, Any, Result], identity: str, timeout: float | None) -> Result:
    try:
        async with asyncio.timeout(timeout) as deadline:
            return await work
    except TimeoutError as error:
        if not deadline.expired():
            raise
        text = f"the session {identity} was not done after {timeout:g} s and was cancelled"
        raise ChildFailedError(identity, text) from error


def _agent_of(saved: SavedSession) -> str:
    return str(saved.metadata.get("agent_name") or SELF)


def _named_call(request: SpawnRequest) -> str | None:
    """Return the id of the call that the caller itself names."""
    call = request.tool_call_id or request.session_metadata.get("tool_call_id")
    return call if isinstance(call, str) else None


def _distinctions(agent: str, task: str) -> Iterator[tuple[str, ...]]:
    """Yield what distinguishes the children of one call: the task, the agent, whose name an id may cut, a number."""
    yield (task,)
    yield (task, agent)
    yield from ((task, agent, str(number)) for number in count(2))


def _answered_calls(saved: SavedSession | None) -> list[str]:
    """Return the ids of the calls that have results in a session.

    Synthetic and recovered results are left out: the model has not seen them, and may repeat the call.
    """
    calls = [] if saved is None else [message for message in saved.messages if message.get("role") == "tool"]
    marks = [message.get("metadata") for message in calls]
    return [
        str(message.get("tool_call_id"))
        for message, mark in zip(calls, marks, strict=True)
        if not (isinstance(mark, Mapping) and _UNSEEN & mark.keys())
    ]
