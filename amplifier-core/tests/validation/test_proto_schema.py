"""What the checks of plain result dicts say."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.validation.proto_schema import validate_hook_result, validate_tool_result


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"success": False, "output": 3, "error": None}, []),
        ({"success": None}, ["Field 'success' must be bool, got NoneType"]),
        ([], ["Tool result must be a dict, got list"]),
    ],
)
def test_tool_result(data: Any, expected: list[str]) -> None:
    """A tool result needs a bool under `success`."""
    assert validate_tool_result(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"action": "ask_user", "context_injection_role": None, "approval_default": "allow"}, []),
        (
            {"action": []},
            ["Invalid action '[]': must be one of ['ask_user', 'continue', 'deny', 'inject_context', 'modify']"],
        ),
        (
            {"context_injection_role": "tool", "user_message_level": "loud", "approval_default": "maybe"},
            [
                "Invalid context_injection_role 'tool': must be one of ['assistant', 'system', 'user']",
                "Invalid user_message_level 'loud': must be one of ['error', 'info', 'warning']",
                "Invalid approval_default 'maybe': must be one of ['allow', 'deny']",
            ],
        ),
        (None, ["Hook result must be a dict, got NoneType"]),
    ],
)
def test_hook_result(data: Any, expected: list[str]) -> None:
    """A hook result may leave everything out, but what is there must be known; no action means continue."""
    assert validate_hook_result(data) == expected
