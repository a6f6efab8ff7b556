"""Start and resume the children of one session: find the one that is meant, or make it, and answer for its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.children.child import Child, Surroundings, Task
from amplifier_foundation.children.cost import ChildCosts
from amplifier_foundation.children.errors import ChildBusyError, ChildFailedError, ChildUnknownError, SpawnError
from amplifier_foundation.children.ids import child_id, is_plain
from amplifier_foundation.children.origin import ChildFacts, Origin
from amplifier_foundation.children.parts import ChildParts
from amplifier_foundation.children.recovered import FROM_CHILD
from amplifier_foundation.children.request import SELF, SpawnRequest
from amplifier_foundation.children.roster import Roster
from amplifier_foundation.children.stored import Result, keep_result, stored_result, task_hash
from amplifier_foundation.sessions.plan import planned_budget
from amplifier_foundation.sessions.resume import RECOVERED
from amplifier_kit.engine.tool_dispatch import call_in_progress

if TYPE_CHECKING:
    from amplifier_foundation.children.remote import RemoteChild
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.resume import SavedSession
    from amplifier_foundation.sessions.runtime import SessionRuntime

#: How long children that are at work when their parent ends may take to close what they have begun.
_CLOSE_SECONDS: Final = 5.0
#: Marks of results that no model has seen yet.
_UNSEEN: Final = frozenset({"synthetic", RECOVERED, FROM_CHILD})


class ChildSessions:
    """The children of one running session."""

    def __init__(self, parent: SessionRuntime) -> None:
        """Be ready for children of a session."""
        self._parent = parent
        self._parts = ChildParts(parent)
        self._roster = Roster(parent.prepared.composed.plan, parent.session.config, parent.agents_at_start)
        #: Children at work: their task, and what waits for their result.
        self._running: dict[str, _AtWork] = {}
        self._costs = ChildCosts(parent.session.coordinator)
        #: How often each call id was answered before: an id that comes again means another call.
        self._answered = Counter(_answered_calls(parent.saved))
        #: In which turn each was answered last by this process.
        self._answered_in: dict[str, int] = {}

    def check_parent(self, given: Any) -> None:
        """Raise SpawnError when the caller means another session than this one, or this one has ended."""
        if self._parent.is_over:
            raise SpawnError(f"the session {self._parent.session_id} has ended: it starts no children any more")
        named = given if isinstance(given, str) else getattr(given, "session_id", None)
        if isinstance(named, str) and named != self._parent.session_id:
            raise SpawnError(
                f"this capability starts children of session {self._parent.session_id}, not of {named}: use its own"
            )

    async def spawn(self, request: SpawnRequest, agents: Mapping[str, Any] | None = None) -> Result:
        """Return what a child makes of a task; see `SpawnCapability`.

        A child that did this task already is not run again: what came of it is returned. One that was cut off goes on.
        """
        agent = self._roster.definition(request.agent, agents)
        given, request = request, self._with_call(request)
        task = self._task(request)
        # Who names a call means its child. A tool that does not, and starts the same twice at once, means two.
        identity = self._identity(request, task, is_shared=_named_call(given) is not None)
        work = self._find_or_start(identity, task, request, agent)
        result = await self._once(identity, request.agent, task, work, request.timeout)
        return self._noted(request.tool_call_id, result)

    async def resume(self, session_id: Any, request: SpawnRequest) -> Result:
        """Return what a child makes of another task; raises ChildUnknownError when there is no such child."""
        from amplifier_foundation.children.resuming import load_child

        request = self._with_call(request)
        saved = await load_child(self._place, session_id, self._parent.session_id)
        task = task_hash(*filter(None, (request.tool_call_id, self._task(request))))
        work = self._go_on(saved, task, request, is_new_task=True)
        result = await self._once(saved.session_id, _agent_of(saved), task, work, request.timeout)
        return self._noted(request.tool_call_id, result)

    def child_id(self, agent: str, tool_call_id: str | None = None, instruction: str | None = None) -> str:
        """Return the id of the child that a call means."""
        task = task_hash(instruction) if instruction is not None else None
        return self._call_id(agent, tool_call_id, task)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent of a child that is on disk, by its notes; None when there is no such child."""
        if not is_plain(session_id) or not (self._place / session_id).is_dir():
            return None
        from amplifier_foundation.sessions.metadata import load_metadata

        facts = load_metadata(self._place / session_id).data
        agent = facts.get("agent_name") if facts.get("parent_id") == self._parent.session_id else None
        return agent if isinstance(agent, str) else None

    def is_counted(self, session_id: str) -> bool:
        """Tell whether this process tells what a child costs."""
        return self._costs.is_counted(session_id)

    @property
    def at_work_here(self) -> list[SessionRuntime]:
        """Return the sessions of the children that are at work in this process; another thread may ask, too."""
        return [child.runtime for child in self._costs.at_work if isinstance(child, Child)]

    async def close(self) -> None:
        """Stop the children that are at work still: nobody is left who could use what they do."""
        waiting = [one.caller for one in self._running.values() if one.caller is not None]
        for caller in waiting:
            caller.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_SECONDS)

    # -- which child is meant --

    @property
    def _place(self) -> Path:
        return self._parent.folder.parent

    def _with_call(self, request: SpawnRequest) -> SpawnRequest:
        """Return a request that knows the call it was made in, as far as the caller or the loop tells."""
        if request.tool_call_id is not None:
            return request
        is_named = _named_call(request) is not None
        told = request.session_metadata if is_named else call_in_progress(self._parent.session.coordinator)
        if told is None or not isinstance(told.get("tool_call_id"), str):
            return request
        group = told.get("parallel_group_id")
        return replace(
            request,
            tool_call_id=told["tool_call_id"],
            parallel_group_id=group if isinstance(group, str) else request.parallel_group_id,
        )

    def _task(self, request: SpawnRequest) -> str:
        """Return what tells a task from others: its words, and which use of its call's id it is."""
        times = self._times(request.tool_call_id)
        return task_hash(request.instruction, str(times)) if times else task_hash(request.instruction)

    def _identity(self, request: SpawnRequest, task: str, *, is_shared: bool) -> str:
        if request.sub_session_id is None:
            return self._call_id(request.agent, request.tool_call_id, task, is_shared=is_shared)
        if not is_plain(request.sub_session_id) or request.sub_session_id == self._parent.session_id:
            raise SpawnError(f"sub_session_id {request.sub_session_id!r} cannot be the id of a child")
        return request.sub_session_id

    def _call_id(self, agent: str, call: str | None, task: str | None, *, is_shared: bool = True) -> str:
        """Return the id by call, and by more when the call has started others already.

        The child of that agent that has the same task already is meant, but for one at work that is not to be shared.
        """
        times = self._times(call)
        distinct = (str(times),) if times else ()
        identity = child_id(self._parent.session_id, call, agent, *distinct)
        if call is None or task is None:
            return identity
        for more in _further(agent, task):
            if self._known(identity) in (None, (agent, task)) and (is_shared or identity not in self._running):
                break
            identity = child_id(self._parent.session_id, call, agent, *distinct, *more)
        return identity

    def _times(self, call: str | None) -> int:
        """Return how often this call id was used before the call that is meant now."""
        return 0 if call is None else self._answered[call] + self._was_answered_before(call)

    def _was_answered_before(self, call: str) -> bool:
        return self._answered_in.get(call, self._parent.turns) < self._parent.turns

    def _noted(self, call: str | None, result: Result) -> Result:
        if call is not None:
            self._answered[call] += self._was_answered_before(call)
            self._answered_in[call] = self._parent.turns
        return result

    def _known(self, identity: str) -> tuple[str, str] | None:
        """Return the agent and the first task of a child; None when there is no such child, or nobody knows."""
        folder = self._place / identity
        if identity in self._running:
            return self._running[identity].agent, self._running[identity].task
        if not folder.is_dir():
            return None
        from amplifier_foundation.sessions.metadata import load_metadata

        facts = load_metadata(folder).data
        agent, task = facts.get("agent_name"), facts.get("task_sha256")
        return (agent, task) if isinstance(agent, str) and isinstance(task, str) else None

    # -- running it --

    async def _once(
        self, identity: str, agent: str, task: str, work: Coroutine[Any, Any, Result], timeout: float | None
    ) -> Result:
        """Run a child, or wait for the one that does the same task already; raises ChildBusyError for another task."""
        if identity in self._running:
            work.close()
            return await self._running[identity].result_of(identity, agent, task)
        at_work = self._running[identity] = _AtWork(agent, task, asyncio.current_task())
        future = at_work.future
        try:
            result = await _in_time(work, identity, timeout)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # seen: the caller has it
            raise
        finally:
            del self._running[identity]
        future.set_result(result)
        return result

    async def _find_or_start(self, identity: str, task: str, request: SpawnRequest, agent: Mapping[str, Any]) -> Result:
        folder = self._place / identity
        if folder.is_dir():
            self._check_agent(identity, request.agent)
            if (stored := stored_result(folder, task)) is not None:
                return stored
            from amplifier_foundation.children.resuming import cut_off

            saved = await cut_off(folder, self._parent.session_id)
            if saved is not None:
                is_new_task = saved.metadata.get("task_sha256") != task
                return await self._go_on(saved, task, request, is_new_task=is_new_task)
        facts = self._facts(identity, request, request.agent)
        prepared, warnings, has_own_provider = await self._parts.prepared(request, agent, self._roster.all())
        metadata = self._parts.metadata(facts, request, agent, prepared, task)
        self_depth = self._parts.self_depth(request)
        origin = self._parts.origin(facts, prepared, agent, self_depth, metadata, has_own_provider=has_own_provider)
        work = Task(request.instruction, task, request.parent_messages, warnings)
        return await self._run(origin, prepared, None, work, agent, is_own_process=request.use_subprocess)

    def _check_agent(self, identity: str, agent: str) -> None:
        """Raise ChildUnknownError when the child of an id is another agent: its answer is not the one that is meant."""
        there = self.agent_of(identity)
        if there is not None and there != agent:
            raise ChildUnknownError(f"the session {identity} is of agent {there!r}, not of {agent!r}: use another id")

    async def _go_on(self, saved: SavedSession, task: str, request: SpawnRequest, *, is_new_task: bool) -> Result:
        """Let a child that is on disk work on: on its next task, or on the one that it was cut off from."""
        from amplifier_foundation.children.resuming import answer_of, prepared_again, prompt_to_go_on

        if (stored := stored_result(saved.folder, task)) is not None and request.tool_call_id is not None:
            return stored
        if not is_new_task and (answer := answer_of(saved, task)) is not None:
            with suppress(OSError):  # then it is found in the conversation again
                scrub = self._parent.redactor.scrub
                keep_result(saved.folder, task, answer, lambda value: scrub(value).value, request.tool_call_id)
            return answer
        prompt = request.instruction if is_new_task else prompt_to_go_on(saved, request.instruction)
        prepared, warnings = prepared_again(saved, self._parent.prepared)
        agent, depth = saved.metadata.get("agent_overlay"), saved.metadata.get("self_delegation_depth")
        facts = self._facts(saved.session_id, request, _agent_of(saved))
        self_depth = depth if isinstance(depth, int) else 0
        origin = self._parts.origin(facts, prepared, agent, self_depth, {}, has_own_provider=True)
        work = Task(prompt, task, (), warnings)
        is_own_process = request.use_subprocess or saved.metadata.get("use_subprocess") is True
        return await self._run(origin, prepared, saved, work, agent, is_own_process=is_own_process)

    async def _run(
        self,
        origin: Origin,
        prepared: Prepared,
        saved: SavedSession | None,
        task: Task,
        agent: Any,
        *,
        is_own_process: bool = False,
    ) -> Result:
        """Run a child under the budget and the wish to stop of its parent, and have its cost told there."""
        identity = origin.facts.session_id
        limits = planned_budget(agent) if isinstance(agent, Mapping) else {}
        with await self._parent.budget.claim_child(origin.facts.agent, limits) as budget:
            surroundings = Surroundings.of(self._parent)
            origin = replace(origin, budget=budget)
            child: Child | RemoteChild
            if is_own_process:
                from amplifier_foundation.children.remote import RemoteChild

                child = RemoteChild(surroundings, origin, prepared, is_saved=saved is not None)
            else:
                child = Child(surroundings, origin, prepared, saved)
            self._costs.begin(identity, child)
            token = self._parent.session.coordinator.cancellation
            token.register_child(child.cancellation)
            try:
                return await child.run(task)
            finally:
                token.unregister_child(child.cancellation)
                self._costs.end(identity, child)

    def _facts(self, identity: str, request: SpawnRequest, agent: str) -> ChildFacts:
        above, depth = self._parent.session_id, self._parts.depth()
        return ChildFacts(identity, above, agent, depth, request.tool_call_id, request.parallel_group_id)


class _AtWork:
    """A child at work: its agent and task, who waits for it, and its result for others who want the same."""

    def __init__(self, agent: str, task: str, caller: asyncio.Task[Any] | None) -> None:
        self.agent, self.task, self.caller = agent, task, caller
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def result_of(self, identity: str, agent: str, task: str) -> Result:
        """Return the result when it is there.

        Raises ChildBusyError when it will be that of another agent or task, ChildFailedError when it was stopped.
        """
        if (agent, task) != (self.agent, self.task):
            raise ChildBusyError(f"the session {identity} is at work on another task: wait for it")
        await asyncio.wait([self.future])
        if self.future.cancelled():
            raise ChildFailedError(identity, f"the session {identity} was stopped by whoever had started it")
        return self.future.result()


async def _in_time(work: Coroutine[Any, Any, Result], identity: str, timeout: float | None) -> Result:
    try:
        async with asyncio.timeout(timeout) as deadline:
            return await work
    except TimeoutError as error:
        if not deadline.expired():
            raise
        text = f"the session {identity} was not done after {timeout:g} s and was stopped"
        raise ChildFailedError(identity, text) from error


def _agent_of(saved: SavedSession) -> str:
    return str(saved.metadata.get("agent_name") or SELF)


def _named_call(request: SpawnRequest) -> str | None:
    """Return the call that the caller itself names."""
    call = request.tool_call_id or request.session_metadata.get("tool_call_id")
    return call if isinstance(call, str) else None


def _further(agent: str, task: str) -> Iterator[tuple[str, ...]]:
    """Tell the children of one call apart: by their task, by their agent, of whose name an id has a part, by number."""
    yield (task,)
    yield (task, agent)
    yield from ((task, agent, str(number)) for number in count(2))


def _answered_calls(saved: SavedSession | None) -> list[str]:
    """Return the ids of the calls that a session has had results of.

    Those that stand for one that was lost, or that were found since, are left out: no model has seen them, and the call
    may be made again.
    """
    calls = [] if saved is None else [message for message in saved.messages if message.get("role") == "tool"]
    marks = [message.get("metadata") for message in calls]
    return [
        str(message.get("tool_call_id"))
        for message, mark in zip(calls, marks, strict=True)
        if not (isinstance(mark, Mapping) and _UNSEEN & mark.keys())
    ]
