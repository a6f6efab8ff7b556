"""Modes: what a session may use for a while, and the guidance that goes with it.

A mode is a Markdown file with a section `mode` in its front matter:

    ---
    mode:
      name: plan
      description: Look and plan; change nothing.
      tools: {safe: [read_file, grep], warn: [bash]}
    ---
    Guidance for the model.

The mode of a session is `session_state["active_mode"]`, a name. `session_state["mode_discovery"]` finds the modes, and
`session_state["mode_hooks"]` enforces the active one; both come from hooks-mode. The tool `mode` and apps change the
mode with `activate` and `clear`, which announce every change before it is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.config import Config, ConfigProblem, Text, Texts, check_config, read_config
from amplifier_kit.front_matter import decoded, parse_front_matter
from amplifier_kit.struct import FrozenStruct

__all__ = [
    "ACTIVATED",
    "ACTIVE",
    "CHANGED",
    "CLEARED",
    "DISCOVERY",
    "HOOKS",
    "OVERLAY",
    "Mode",
    "activate",
    "active_mode",
    "check_mode",
    "clear",
    "parse_mode",
    "tool_lists",
]

#: Keys of `session_state`.
ACTIVE: Final = "active_mode"
DISCOVERY: Final = "mode_discovery"
HOOKS: Final = "mode_hooks"
#: What an app offers, to add agents, context and skills for a while: `apply(scope, contributions)`, `revoke(scope)`.
OVERLAY: Final = "mode_runtime_overlay"

ACTIVATED: Final = "mode:activated"
CHANGED: Final = "mode:changed"
CLEARED: Final = "mode:cleared"

_SHORTCUT: Final = re.compile(r"[a-z][a-z0-9_-]*")
_LISTS: Final = ("safe", "warn", "confirm", "block")


class Mode(FrozenStruct):
    """One mode. Tools that no list names are decided by `default_action`."""

    name: str
    description: str = ""
    #: The guidance for the model.
    context: str = ""
    #: Where it was found: `project`, `user`, `modes` (those of hooks-mode), `config`, or a namespace.
    source: str = ""
    #: The slash command that activates it, None for none.
    shortcut: str | None = None
    safe_tools: tuple[str, ...] = ()
    warn_tools: tuple[str, ...] = ()
    confirm_tools: tuple[str, ...] = ()
    block_tools: tuple[str, ...] = ()
    default_action: Literal["block", "allow"] = "block"
    #: The modes that the model may change to from this one; None for any.
    allowed_transitions: tuple[str, ...] | None = None
    #: Whether the model may leave it without activating another one.
    allow_clear: bool = True
    #: Whether the model and the user are told that it exists.
    advertised: bool = True
    #: Agents, context and skills that exist while it is active.
    contributes: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None


class _Tools(Config):
    safe: Texts = ()
    warn: Texts = ()
    confirm: Texts = ()
    block: Texts = ()


class _Contributes(Config):
    #: Definitions by name, or names of agents that the bundle has files of.
    agents: dict[str, Any] | list[str] = Field(default_factory=dict)
    context: list[Any] = Field(default_factory=list)
    skills: list[Any] = Field(default_factory=list)


class _Section(Config):
    """The section `mode` of a mode file."""

    name: Text | None = None
    description: str = ""
    shortcut: str | bool | None = None
    tools: _Tools = Field(default_factory=_Tools)
    default_action: Literal["block", "allow"] = "block"
    allowed_transitions: Texts | None = None
    allow_clear: bool = True
    advertised: bool = True
    contributes: _Contributes = Field(default_factory=_Contributes)


def check_mode(given: Any) -> list[ConfigProblem]:
    """Return all problems of the section `mode` of a file, unknown keys included."""
    return check_config(_Section, given)


def parse_mode(file: Path, content: bytes, source: str) -> Mode | None:
    """Return the mode that a file describes; None for a file without a section `mode`.

    Raises ValueError that says what is wrong: FrontMatterError with the line, or ConfigError with the keys.
    """
    front = parse_front_matter(content)
    given = front.data.get("mode")
    if given is None:
        return None
    section = read_config(_Section, given, module=f"{file}:{front.lines['mode']}")
    name = section.name or file.stem
    first_line = 1 + content.count(b"\n", 0, front.length)
    return Mode(
        name=name,
        description=section.description,
        context=decoded(content[front.length :], first_line).strip(),
        source=source,
        shortcut=_shortcut(given.get("shortcut", name)),
        safe_tools=section.tools.safe,
        warn_tools=section.tools.warn,
        confirm_tools=section.tools.confirm,
        block_tools=section.tools.block,
        default_action=section.default_action,
        allowed_transitions=section.allowed_transitions,
        allow_clear=section.allow_clear,
        advertised=section.advertised,
        contributes={kind: value for kind, value in section.contributes if value},
        file=file,
    )


def _shortcut(given: Any) -> str | None:
    """Return a name that can be typed as a slash command, None for one that cannot."""
    name = given.lower() if isinstance(given, str) else ""
    return name if _SHORTCUT.fullmatch(name) else None


# -- the mode of a session --


def active_mode(coordinator: Any) -> str | None:
    """Return the name of the active mode, None without one."""
    name = coordinator.session_state.get(ACTIVE)
    return name if isinstance(name, str) and name else None


def tool_lists(mode: Any) -> dict[str, list[str]]:
    """Return the four lists of a mode under the names that events and results have."""
    return {f"{name}_tools": list(getattr(mode, f"{name}_tools", ())) for name in _LISTS}


async def activate(coordinator: Any, mode: Any) -> None:
    """Make a mode the active one; emits `mode:activated`, or `mode:changed` when it follows another one."""
    state, old = coordinator.session_state, active_mode(coordinator)
    facts = {"description": mode.description, "default_action": mode.default_action, **tool_lists(mode)}
    if old is None:
        await coordinator.hooks.emit(ACTIVATED, {"name": mode.name, "mode": mode.name, **facts})
    elif old != mode.name:
        change = {"old": old, "new": mode.name, "from_mode": old, "to_mode": mode.name}
        await coordinator.hooks.emit(CHANGED, {**change, **facts})
    state[ACTIVE] = mode.name
    await _reset_warnings(state)


async def clear(coordinator: Any) -> str | None:
    """Leave the active mode and return its name, None without one; emits `mode:cleared`."""
    state, old = coordinator.session_state, active_mode(coordinator)
    if old is None:
        return None
    await coordinator.hooks.emit(CLEARED, {"name": old, "previous_mode": old})
    state[ACTIVE] = None
    await _reset_warnings(state)
    return old


async def _reset_warnings(state: Mapping[str, Any]) -> None:
    reset = getattr(state.get(HOOKS), "reset_warnings", None)
    if callable(reset):
        await maybe_await(reset())
