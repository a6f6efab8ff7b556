"""What an answer used, on one line."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_module_hooks_streaming_ui.usage import usage_text


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 12345, "output_tokens": 6}, "tokens: 12,345 in · 6 out"),
        ({"input_tokens": 1, "reasoning_tokens": 1}, "tokens: 1 in · 1 reasoning"),
        ({"input_tokens": 0, "output_tokens": 0, "reasoning_tokens": 0}, "tokens: 0 in · 0 out"),
        (
            {
                "input_tokens": 9,
                "output_tokens": 8,
                "total_tokens": 17,
                "cache_read_tokens": 7,
                "cache_write_tokens": 6,
                "reasoning_tokens": 5,
                "cost_usd": "0.001200",
            },
            "tokens: 9 in · 7 from cache · 6 to cache · 8 out · 5 reasoning · $0.0012",
        ),
        ({"input_tokens": 1, "cost_usd": "0"}, "tokens: 1 in · $0.00"),
        ({"input_tokens": 1, "cost_usd": None}, "tokens: 1 in"),
        ({"input_tokens": 1, "cost_usd": "a lot"}, "tokens: 1 in"),
        ({"input_tokens": 1, "cost_usd": "NaN"}, "tokens: 1 in"),
        ({"input_tokens": 1, "cost_usd": 1e-7}, "tokens: 1 in · <$0.0001"),
        ({"input_tokens": "many", "output_tokens": True}, None),
        ({}, None),
        (None, None),
        ("Usage(input_tokens=1)", None),
    ],
)
def test_usage(usage: Any, expected: str | None) -> None:
    """What is known is told, in a readable way; what is not known is left out, and an unknown price is not zero."""
    assert usage_text(usage) == expected
