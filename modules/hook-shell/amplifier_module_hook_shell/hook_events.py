"""Name the moments hooks can be written for, and the event of the session that each stands for."""

from __future__ import annotations

from typing import Final

from amplifier_core.events import (
    APPROVAL_REQUIRED,
    CONTEXT_PRE_COMPACT,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_RESUME,
    SESSION_START,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
    USER_NOTIFICATION,
)
from amplifier_kit.struct import FrozenStruct

SKILL_LOADED: Final = "skill:loaded"
SKILL_UNLOADED: Final = "skill:unloaded"


class Moment(FrozenStruct):
    """One name that a hooks file may use."""

    name: str
    #: The events it stands for.
    events: tuple[str, ...]
    #: The field of the payload that a matcher is compared with; None: this event has no matcher.
    subject: str | None = None
    #: Whether the hook gates an action: no answer is then a refusal, unless the config says otherwise.
    is_gate: bool = False
    #: Which field of the event a hook may replace.
    replaced: str | None = None
    #: Whether plain text on standard output is context for the model.
    is_text_context: bool = False
    #: Whether it is run to its end although the session was asked to stop.
    is_last: bool = False


MOMENTS: Final = {
    moment.name: moment
    for moment in (
        Moment("PreToolUse", (TOOL_PRE,), "tool_name", is_gate=True, replaced="tool_input"),
        Moment("PostToolUse", (TOOL_POST,), "tool_name", replaced="result"),
        Moment("PostToolUseFailure", (TOOL_ERROR,), "tool_name"),
        Moment("UserPromptSubmit", (PROMPT_SUBMIT,), is_gate=True, replaced="prompt", is_text_context=True),
        Moment("PermissionRequest", (APPROVAL_REQUIRED,), "tool_name", is_gate=True),
        Moment("Stop", (PROMPT_COMPLETE,), is_last=True),
        Moment("SubagentStop", (PROMPT_COMPLETE,), is_last=True),
        Moment("SessionStart", (SESSION_START, SESSION_RESUME), "source", is_text_context=True),
        Moment("SubagentStart", (SESSION_START, SESSION_RESUME), is_text_context=True),
        Moment("SessionEnd", (SESSION_END,), "reason", is_last=True),
        Moment("PreCompact", (CONTEXT_PRE_COMPACT,), "trigger"),
        Moment("Notification", (USER_NOTIFICATION,), "notification_type"),
        Moment("SkillLoaded", (SKILL_LOADED,), "skill_name"),
        Moment("SkillUnloaded", (SKILL_UNLOADED,), "skill_name"),
    )
}

#: Every event somebody may wait for, in the order in which they are registered.
HEARD: Final = tuple(dict.fromkeys(event for moment in MOMENTS.values() for event in moment.events))
_IN_CHILD: Final = {PROMPT_COMPLETE: "SubagentStop", SESSION_START: "SubagentStart", SESSION_RESUME: "SubagentStart"}
_OF_EVENT: Final = {
    event: moment
    for moment in MOMENTS.values()
    for event in moment.events
    if moment.name not in ("SubagentStop", "SubagentStart")
}


def named(name: str) -> Moment | None:
    """Return the moment of a name in a hooks file, which may also be the name of the event itself."""
    return MOMENTS.get(name) or _OF_EVENT.get(name)


def moment_of(event: str, *, is_child: bool) -> Moment | None:
    """Return what an event is in a session, or in one that another session started; None when it is nothing there."""
    if not is_child:
        return _OF_EVENT.get(event)
    if event == SESSION_END:
        return None  # of a child, SubagentStop is the end
    return MOMENTS[_IN_CHILD[event]] if event in _IN_CHILD else _OF_EVENT.get(event)
