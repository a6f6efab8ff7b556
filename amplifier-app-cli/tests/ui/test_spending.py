"""Who used how much, in words."""

from __future__ import annotations

from typing import Any

from amplifier_app_cli.ui.spending import spending_lines


def _row(agent: str | None, source: str, usd: str, **more: Any) -> dict[str, Any]:
    return {
        "session": "s",
        "agent": agent,
        "source": source,
        "calls": 1,
        "tokens": 1500,
        "usd": usd,
        "unpriced": 0,
        "estimated_usd": "0",
        **more,
    }


def test_the_dearest_first() -> None:
    """Sessions of one agent are one line, the dearest is the first, and what has no known price is said."""
    rows = [
        _row(None, "loop", "0.5"),
        _row("explorer", "loop", "1"),
        _row("explorer", "loop", "1", calls=2),
        _row("ex\x1b[31mplorer", "hook:judge", "0", unpriced=1),
    ]
    assert list(spending_lines(rows)) == [
        "used by explorer, loop: 3 calls, 3,000 tokens, $2.00",
        "used by loop: 1 call, 1,500 tokens, $0.5000",
        "used by explorer, hook:judge: 1 call, 1,500 tokens, $0.00 and 1 without price",
    ]
