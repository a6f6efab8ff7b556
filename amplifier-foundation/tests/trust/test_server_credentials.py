"""What the entries of MCP servers hold is not written down."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_foundation.trust.server_credentials import without_server_values
from amplifier_kit.guard.redaction.prefilter import MASK


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "s", "env": {"THING": "odd-9012", "A": "${NAME}", "N": 5, "ON": True}}, None),
        ({"url": "u", "headers": {"X-Thing": "odd-5521", "B": "Bearer ${TOKEN}", "C": "Bearer odd"}}, None),
        ({"command": "s", "env": {"A": "${NAME:-odd}", "B": "odd${NAME}"}}, None),
        (
            {"command": "s", "args": ["-y", "pkg", "--pat", "odd", "--token=odd", "--key", "${K}", "--verbose", "x"]},
            ["-y", "pkg", "--pat", MASK, f"--token={MASK}", "--key", "${K}", "--verbose", "x"],
        ),
    ],
)
def test_entries_hold_no_values(entry: dict[str, Any], expected: Any) -> None:
    """Of `env`, `headers` and flags for secrets only references stay, however deep in a plan the entry is."""
    plan = {"agents": {"a": {"tools": [{"module": "tool-mcp", "config": {"servers": {"s": entry}}}]}}, "n": [1]}
    shown = without_server_values(plan)
    assert shown["n"] == [1]
    [tool] = shown["agents"]["a"]["tools"]
    made = tool["config"]["servers"]["s"]
    assert "odd" not in str(made)
    assert str(made).count("${") == str(entry).replace("${NAME:-odd}", "").replace("odd${NAME}", "").count("${")
    if expected is not None:
        assert made["args"] == expected
