"""A screen that keeps what is shown, and words of children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_app_cli.ui.colour import Ink
from amplifier_foundation.sessions.origin import ChildFacts


class KeptScreen:
    """Keep what is shown."""

    def __init__(self, width: int = 80, *, draws: bool = True) -> None:
        self.ink = Ink(False)
        self.width = width
        self.has_live_part = draws
        self.shown: list[str] = []
        self.drawn = 0

    def show(self, text: str) -> None:
        """Keep lines."""
        self.shown += text.split("\n")

    def refresh(self) -> None:
        """Count the drawings."""
        self.drawn += 1


@pytest.fixture
def screen() -> Callable[..., Any]:
    """Return a function that makes a screen."""
    return KeptScreen


@pytest.fixture
def child() -> Callable[..., ChildFacts]:
    """Return a function that makes the facts of a child: its id is its name, its call `call of NAME`."""

    def make(name: str, parent: str = "root", depth: int = 1, **more: Any) -> ChildFacts:
        return ChildFacts(name, parent, more.get("agent", name), depth, more.get("call", f"call of {name}"), None)

    return make
