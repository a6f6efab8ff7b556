"""The canonical events."""

from __future__ import annotations

import re

import pytest

from amplifier_core import events
from amplifier_core.hooks import HookRegistry

#: The list, in its order, which is part of the contract.
CANONICAL = """
SESSION_START session:start
SESSION_END session:end
SESSION_FORK session:fork
SESSION_RESUME session:resume
PROMPT_SUBMIT prompt:submit
PROMPT_COMPLETE prompt:complete
PLAN_START plan:start
PLAN_END plan:end
PROVIDER_REQUEST provider:request
PROVIDER_RESPONSE provider:response
PROVIDER_RETRY provider:retry
PROVIDER_ERROR provider:error
PROVIDER_THROTTLE provider:throttle
PROVIDER_TOOL_SEQUENCE_REPAIRED provider:tool_sequence_repaired
PROVIDER_RESOLVE provider:resolve
LLM_REQUEST llm:request
LLM_RESPONSE llm:response
CONTENT_BLOCK_START content_block:start
CONTENT_BLOCK_DELTA content_block:delta
CONTENT_BLOCK_END content_block:end
THINKING_DELTA thinking:delta
THINKING_FINAL thinking:final
TOOL_PRE tool:pre
TOOL_POST tool:post
TOOL_ERROR tool:error
CONTEXT_PRE_COMPACT context:pre_compact
CONTEXT_POST_COMPACT context:post_compact
CONTEXT_COMPACTION context:compaction
CONTEXT_INCLUDE context:include
ORCHESTRATOR_COMPLETE orchestrator:complete
EXECUTION_START execution:start
EXECUTION_END execution:end
USER_NOTIFICATION user:notification
ARTIFACT_WRITE artifact:write
ARTIFACT_READ artifact:read
POLICY_VIOLATION policy:violation
APPROVAL_REQUIRED approval:required
APPROVAL_GRANTED approval:granted
APPROVAL_DENIED approval:denied
CANCEL_REQUESTED cancel:requested
CANCEL_COMPLETED cancel:completed
MODULE_ON_SESSION_READY_FAILED module:on_session_ready_failed
MODULE_LOAD_FAILED module:load_failed
"""
NAMED = dict(line.split() for line in CANONICAL.split("\n") if line)


def test_all_events_in_order() -> None:
    """There are 43, in this order; the first 42 are those of the seeds."""
    assert list(NAMED.values()) == events.ALL_EVENTS
    assert len(events.ALL_EVENTS) == 43
    assert events.ALL_EVENTS[41] == "module:on_session_ready_failed"
    assert isinstance(events.ALL_EVENTS, list)


def test_every_constant_is_listed() -> None:
    """Every upper-case name of the module is an event of the list, and the other way round."""
    constants = {name: getattr(events, name) for name in dir(events) if name.isupper() and name != "ALL_EVENTS"}
    assert constants == NAMED


def test_names_are_namespace_and_action() -> None:
    """Each name has exactly one colon, is lower case, and there is no other of its kind."""
    assert all(re.fullmatch("[a-z_]+:[a-z_]+", event) for event in events.ALL_EVENTS)
    assert len(set(events.ALL_EVENTS)) == len(events.ALL_EVENTS)


@pytest.mark.parametrize("event", events.ALL_EVENTS)
async def test_each_event_reaches_its_handlers(event: str) -> None:
    """An event reaches who asked for it, with its name, and nobody else."""
    hooks = HookRegistry()
    heard: list[str] = []
    for known in events.ALL_EVENTS:
        hooks.register(known, lambda name, data: heard.append(name))
    await hooks.emit(event, {})
    assert heard == [event]


def test_registry_constants() -> None:
    """The registry names exactly eight of them."""
    constants = {name: value for name, value in vars(HookRegistry).items() if name.isupper()}
    assert constants == {
        name: NAMED[name]
        for name in (
            *("SESSION_START", "SESSION_END", "PROMPT_SUBMIT", "TOOL_PRE", "TOOL_POST"),
            *("CONTEXT_PRE_COMPACT", "ORCHESTRATOR_COMPLETE", "USER_NOTIFICATION"),
        )
    }
