"""One request_id for the events of one model call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.correlation import current_request_id, reset_request_id
from amplifier_core.hooks import HookRegistry

TERMINAL = ["llm:response", "provider:error"]
INTERIM = ["provider:retry", "provider:throttle"]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Start and end every test without an open call."""
    reset_request_id()
    yield
    reset_request_id()


async def test_payload_without_fields_opens_nothing() -> None:
    """Data that is no dict has no place for an id."""
    await HookRegistry().emit("llm:request", None)
    assert current_request_id() is None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(["llm:request", *TERMINAL, *INTERIM]), max_size=6), min_size=2, max_size=5))
def test_ids_never_leak_between_tasks(scripts: list[list[str]]) -> None:
    """Parallel tasks each see their own calls only, however their events interleave."""
    hooks = HookRegistry()

    async def waiting(event: str, data: Any) -> None:
        await asyncio.sleep(0)

    hooks.register("*", waiting)

    async def play(script: list[str]) -> set[str]:
        mine: set[str] = set()
        opened: str | None = None
        for event in script:
            result = await hooks.emit(event, {})
            assert result.data is not None
            stamped: Any = result.data.get("request_id")
            if event == "llm:request":
                opened = stamped
                mine.add(stamped)
            else:
                assert stamped == opened
                opened = None if event in TERMINAL else opened
            assert current_request_id() == opened
        return mine

    async def main() -> list[set[str]]:
        return await asyncio.gather(*(asyncio.create_task(play(script)) for script in scripts))

    ids = asyncio.run(main())
    assert sum(len(mine) for mine in ids) == len(set().union(*ids))
