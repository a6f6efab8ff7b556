"""Notifications that the user enabled are part of the next run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_enabling_mounts_the_module(amplifier: Callable[..., Any], environment: dict[str, str]) -> None:
    """After `notify desktop --enable` a run has the hook, and says at the end of the turn what is shown."""
    assert amplifier("notify", "desktop", "--enable", "--no-show-device").returncode == 0
    assert amplifier("run", "Hello.").returncode == 0
    [log] = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*/events.jsonl")
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert "notify:turn-complete" in [event["event"] for event in events]
