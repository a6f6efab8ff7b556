"""Watch what a session says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Heard = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def listen() -> Callable[[Any], Heard]:
    """Give `listen(session)`: it returns a list that fills with every event of the session and its payload."""

    def listen_to(session: Any) -> Heard:
        heard: Heard = []
        session.coordinator.hooks.register("*", lambda event, data: heard.append((event, data)), name="test-listener")
        return heard

    return listen_to
