"""Say what a call of a tool does, in the words that rules are written in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_kit.awaitable import plain_result

logger = logging.getLogger(__name__)


def action_of(tool: Any, name: str, tool_input: Mapping[str, Any]) -> str:
    """Return the action of a call: what the tool says of this input, else of itself, else `tool.<name>`.

    A tool whose inputs are not all alike says so by a method `action_for(input) -> str`. One that fails, or answers
    anything else, has said nothing.
    """
    ask = getattr(tool, "action_for", None)
    action: Any = None
    if callable(ask):
        try:
            action = plain_result(ask(dict(tool_input)))
        except Exception as error:
            logger.error("Tool '%s' cannot say what its input does: %s", name, error, exc_info=error)
    if not isinstance(action, str) or not action:
        action = getattr(tool, "action", None)
    return action if isinstance(action, str) and action else f"tool.{name}"


def question_of(tool: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details that permission for a call is asked with: its tool, its input, its id, and where it works.

    A tool whose relative paths start in a folder of its own says so by `working_dir`; relative to the project else.
    """
    details = {key: call.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
    try:
        folder = getattr(tool, "working_dir", None)
    except Exception as error:
        logger.error("Tool '%s' cannot say where it works: %s", call.get("tool_name"), error, exc_info=error)
        return details
    if isinstance(folder, str | Path) and str(folder):
        details["working_dir"] = str(folder)
    return details
