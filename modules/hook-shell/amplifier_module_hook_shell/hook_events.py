"""The events that hooks can be written for, what a matcher compares, and what a hook reads about an event."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
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


class HookEvent(FrozenStruct):
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


HOOK_EVENTS: Final = {
    hook_event.name: hook_event
    for hook_event in (
        HookEvent("PreToolUse", (TOOL_PRE,), "tool_name", is_gate=True, replaced="tool_input"),
        HookEvent("PostToolUse", (TOOL_POST,), "tool_name", replaced="result"),
        HookEvent("PostToolUseFailure", (TOOL_ERROR,), "tool_name"),
        HookEvent("UserPromptSubmit", (PROMPT_SUBMIT,), is_gate=True, replaced="prompt", is_text_context=True),
        HookEvent("PermissionRequest", (APPROVAL_REQUIRED,), "tool_name", is_gate=True),
        HookEvent("Stop", (PROMPT_COMPLETE,), is_last=True),
        HookEvent("SubagentStop", (PROMPT_COMPLETE,), is_last=True),
        HookEvent("SessionStart", (SESSION_START, SESSION_RESUME), "source", is_text_context=True),
        HookEvent("SubagentStart", (SESSION_START, SESSION_RESUME), is_text_context=True),
        HookEvent("SessionEnd", (SESSION_END,), "reason", is_last=True),
        HookEvent("PreCompact", (CONTEXT_PRE_COMPACT,), "trigger"),
        HookEvent("Notification", (USER_NOTIFICATION,), "notification_type"),
        HookEvent("SkillLoaded", (SKILL_LOADED,), "skill_name"),
        HookEvent("SkillUnloaded", (SKILL_UNLOADED,), "skill_name"),
    )
}

#: Every event somebody may wait for, in the order in which they are registered.
HEARD: Final = tuple(dict.fromkeys(event for hook_event in HOOK_EVENTS.values() for event in hook_event.events))
_IN_CHILD: Final = {PROMPT_COMPLETE: "SubagentStop", SESSION_START: "SubagentStart", SESSION_RESUME: "SubagentStart"}
_OF_EVENT: Final = {
    event: hook_event
    for hook_event in HOOK_EVENTS.values()
    for event in hook_event.events
    if hook_event.name not in ("SubagentStop", "SubagentStart")
}


def named(name: str) -> HookEvent | None:
    """Return the event of a name in a hooks file, which may also be the name of the event itself."""
    return HOOK_EVENTS.get(name) or _OF_EVENT.get(name)


def hook_event_of(event: str, *, is_child: bool) -> HookEvent | None:
    """Return what an event is in a session, or in one that another session started; None when it is nothing there."""
    if not is_child:
        return _OF_EVENT.get(event)
    if event == SESSION_END:
        return None  # of a child, SubagentStop is the end
    return HOOK_EVENTS[_IN_CHILD[event]] if event in _IN_CHILD else _OF_EVENT.get(event)


# --- matchers ---

#: What other agents call the tools of ours, so that hooks that were written for those agents guard the same things.
ALIASES: Final = {
    "bash": ("Bash",),
    "read_file": ("Read",),
    "write_file": ("Write",),
    "edit_file": ("Edit", "MultiEdit"),
    "apply_patch": ("Edit", "MultiEdit", "Write"),
    "grep": ("Grep",),
    "glob": ("Glob",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "todo": ("TodoWrite",),
    "task": ("Task", "Agent"),
    "delegate": ("Task", "Agent"),
    "load_skill": ("Skill",),
}
_LIMIT: Final = 1000
_NAMES: Final = r"[\w\-.: /]+(?:[|,][\w\-.: /]+)*"
_GLOB: Final = r"[\w\-: /*?|,]+"
_RULE: Final = r"\w+\((?:[^|)]*[ :*])[^)]*\)"
#: More than one repetition of something repeated: a regular expression that takes for ever.
_SLOW: Final = r"[*+}][^()|]*\)[*+{]"


class MatcherError(ValueError):
    """A matcher cannot be understood."""


class Matcher:
    """What a hook is for; an empty one, or `*`, is for everything."""

    def __init__(self, text: str = "") -> None:
        """Read a matcher; raise MatcherError that says what is wrong with it."""
        self.text = text.strip()
        self._test = _read(self.text)

    def matches(self, subject: str) -> bool:
        """Tell whether a hook is for this subject: a tool by our name or another agent's, or any other word."""
        return any(self._test(name) for name in (subject, *ALIASES.get(subject, ())))


def _read(text: str) -> Callable[[str], bool]:
    if text in ("", "*", ".*"):
        return lambda name: True
    if len(text) > _LIMIT:
        raise MatcherError(f"it has {len(text)} characters, more than {_LIMIT}")
    if re.fullmatch(_RULE, text):
        raise MatcherError(f"{text!r} looks like a rule about inputs; a matcher names tools only: look into tool_input")
    forms = [text, text.replace("__", "_")] if "mcp__" in text else [text]
    tests = [_test_of(form) for form in forms]
    return lambda name: any(test(name) for test in tests)


def _test_of(text: str) -> Callable[[str], bool]:
    if "." not in text and re.fullmatch(_NAMES, text):
        names = frozenset(name.strip() for name in re.split(r"[|,]", text))
        return lambda name: name in names
    if re.fullmatch(_GLOB, text):
        from fnmatch import translate

        patterns = [re.compile(translate(part.strip())) for part in re.split(r"[|,]", text) if part.strip()]
        return lambda name: any(pattern.match(name) for pattern in patterns)
    if re.search(_SLOW, text):
        raise MatcherError(f"{text!r} repeats a repetition, which may take for ever; write it without")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `[[` may mean something else one day
            pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise MatcherError(f"{text!r} is not a valid regular expression: {error}") from error
    return lambda name: pattern.fullmatch(name) is not None
