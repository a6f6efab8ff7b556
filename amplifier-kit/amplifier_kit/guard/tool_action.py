"""The action of a tool call, by which rules judge it, and the details of the request for permission."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_kit.awaitable import plain_result

logger = logging.getLogger(__name__)


def action_of(tool: Any, name: str, tool_input: Mapping[str, Any]) -> str:
    """Return the action of a call: the tool's `action_for(input)`, else its `action`, else `tool.<name>`.

    A tool whose action depends on its input has the method `action_for`. If it fails, or returns anything but a text,
    it counts as missing.
    """
    ask = getattr(tool, "action_for", None)
    action: Any = None
    if callable(ask):
        try:
            action = plain_result(ask(dict(tool_input)))
        except Exception as error:
            logger.error("action_for() of tool '%s' failed: %s", name, error, exc_info=error)
    if not isinstance(action, str) or not action:
        action = getattr(tool, "action", None)
    return action if isinstance(action, str) and action else f"tool.{name}"


def question_of(tool: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a call's request for permission: tool, input, id and working directory.

    Relative paths start in the tool's `working_dir`, if it has one, else in the project.
    """
    details = {key: call.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
    try:
        folder = getattr(tool, "working_dir", None)
    except Exception as error:
        logger.error("working_dir of tool '%s' failed: %s", call.get("tool_name"), error, exc_info=error)
        return details
    if isinstance(folder, str | Path) and str(folder):
        details["working_dir"] = str(folder)
    return details
