"""The capabilities by which modules start and resume child sessions, in the short form and in the long one.

spawn = coordinator.get_capability("session.spawn")
result = await spawn("explorer", "Find the tests.")
result = await spawn(agent_name="explorer", instruction="Find the tests.", tool_call_id=call_id)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.children.children import ChildSessions


class SpawnCapability:
    """`session.spawn`: start a child session and return `{output, session_id, status, turn_count, metadata}`."""

    def __init__(self, children: Callable[[], ChildSessions]) -> None:
        self._children = children

    async def __call__(
        self,
        agent_name: Any = None,
        instruction: Any = None,
        parent_session: Any = None,
        agent_configs: Mapping[str, Any] | None = None,
        *,
        task: Any = None,
        sub_session_id: str | None = None,
        tool_inheritance: Mapping[str, Any] | None = None,
        hook_inheritance: Mapping[str, Any] | None = None,
        orchestrator_config: Mapping[str, Any] | None = None,
        parent_messages: list[Any] | None = None,
        provider_preferences: list[Any] | None = None,
        model_role: str | None = None,
        self_delegation_depth: int = 0,
        session_metadata: Mapping[str, Any] | None = None,
        use_subprocess: bool = False,
        tool_call_id: str | None = None,
        parallel_group_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a task in a session of its own; `task` is the older name of `instruction`.

        The parent is the session that has the capability; a `parent_session` that is another one is refused. Raises
        SpawnError before anything was started, ChildError for a child that was started and has no answer, and the
        budget's error when it does not allow another child.
        """
        from amplifier_foundation.children.request import SpawnRequest

        children = self._children()
        children.check_parent(parent_session)
        request = SpawnRequest.of(
            agent_name,
            instruction if instruction is not None else task,
            sub_session_id=sub_session_id,
            tool_inheritance=tool_inheritance,
            hook_inheritance=hook_inheritance,
            orchestrator_config=orchestrator_config,
            parent_messages=parent_messages,
            provider_preferences=provider_preferences,
            model_role=model_role,
            self_delegation_depth=self_delegation_depth,
            session_metadata=session_metadata,
            use_subprocess=use_subprocess,
            tool_call_id=tool_call_id,
            parallel_group_id=parallel_group_id,
            timeout=timeout,
        )
        return await children.spawn(request, agent_configs)

    def child_id(self, agent_name: str, tool_call_id: str | None = None, instruction: str | None = None) -> str:
        """Return the id that the child of a call will have; without a call id, one that is new every time."""
        return self._children().child_id(agent_name, tool_call_id, instruction)


class ResumeCapability:
    """`session.resume`: give a child session another task; the result is that of `session.spawn`."""

    def __init__(self, children: Callable[[], ChildSessions]) -> None:
        self._children = children

    async def __call__(
        self,
        sub_session_id: Any = None,
        instruction: Any = None,
        *,
        session_id: Any = None,
        task: Any = None,
        parent_session: Any = None,
        tool_call_id: str | None = None,
        parallel_group_id: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Go on with a child, which has its prompt, its agent and its history; `task` and `session_id` are older names.

        Raises as `session.spawn` does, and ChildUnknownError when there is no such child.
        """
        from amplifier_foundation.children.request import SELF, SpawnRequest

        children = self._children()
        children.check_parent(parent_session)
        request = SpawnRequest.of(
            SELF,
            instruction if instruction is not None else task,
            tool_call_id=tool_call_id,
            parallel_group_id=parallel_group_id,
            timeout=timeout,
        )
        return await children.resume(sub_session_id if sub_session_id is not None else session_id, request)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent of a child of this session; None when there is no such child."""
        return self._children().agent_of(session_id)
