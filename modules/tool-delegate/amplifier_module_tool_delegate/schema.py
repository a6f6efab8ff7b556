"""The input schema, with the features that this session has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplifier_kit.engine.delegation.parent_context import DEPTHS, SCOPES
from amplifier_module_tool_delegate.config import Features

__all__ = ["schema"]


def schema(features: Features, roles: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the input, without disabled features, and with roles only when there are some."""
    properties: dict[str, Any] = {
        "agent": {"type": "string", "description": "The agent: a name from the list above"},
        "instruction": {"type": "string", "description": "What to do, and what to report"},
    }
    if features.resumes:
        properties["session_id"] = {"type": "string", "description": "The session of an agent to resume"}
    if features.max_turns:
        properties |= _context(features.max_turns)
    if features.selects_provider:
        properties |= _selection(roles)
    return {"type": "object", "properties": properties, "required": ["instruction"]}


def _context(max_turns: int) -> dict[str, Any]:
    return {
        "context_depth": {
            "type": "string",
            "enum": list(DEPTHS),
            "default": "recent",
            "description": "How much of this conversation the agent gets: nothing, the last turns, all of it",
        },
        "context_turns": {
            "type": "integer",
            "minimum": 1,
            "maximum": max_turns,
            "default": min(5, max_turns),
            "description": "How many turns 'recent' means",
        },
        "context_scope": {
            "type": "string",
            "enum": list(SCOPES),
            "default": "conversation",
            "description": "What it gets of that: messages only, also answers of agents, also results of all tools",
        },
    }


def _selection(roles: Sequence[str]) -> dict[str, Any]:
    preference = {
        "type": "object",
        "properties": {
            "provider": {"type": "string"},
            "model": {"type": "string", "description": "A name, or a pattern with * in it"},
        },
        "required": ["provider"],
    }
    given: dict[str, Any] = {
        "provider_preferences": {
            "type": "array",
            "items": preference,
            "description": "Models to use, best first; rarely needed",
        }
    }
    if roles:
        given["model_role"] = {
            "type": "string",
            "enum": list(roles),
            "description": "The kind of model the task needs; provider_preferences take precedence",
        }
    return given
