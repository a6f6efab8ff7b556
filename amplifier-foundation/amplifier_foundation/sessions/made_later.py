"""Stand for something that most sessions never ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MadeLater:
    """Stand for an object that is made when something of it is asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)
