"""execute(): what the orchestrator gets, and what becomes of what it does."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession

BEHAVING = """
import asyncio

class Loop:
    def __init__(self):
        self.calls = []
        self.started = asyncio.Event()
    async def execute(self, **arguments):
        self.calls.append(arguments)
        prompt, coordinator = arguments["prompt"], arguments["coordinator"]
        if prompt == "cancel and return":
            await coordinator.request_cancel()
        if prompt == "cancel and raise":
            await coordinator.request_cancel(immediate=True)
            raise Stopped("stopped")
        if prompt == "raise":
            raise Stopped("no")
        if prompt == "hang":
            self.started.set()
            await asyncio.Event().wait()
        if prompt == "base":
            raise Base("deep")
        return {"answer": prompt}

class Stopped(Exception): ...
class Base(BaseException): ...
"""


@pytest.fixture
async def session(make_plan: Any, make_module: Any) -> AmplifierSession:
    """Return an initialised session whose orchestrator does what the prompt says."""
    make_module("loop-behaving", BEHAVING)
    session = AmplifierSession(make_plan())
    await session.initialize()
    from amplifier_module_loop_behaving import Loop  # type: ignore[import-not-found]

    await session.coordinator.mount("orchestrator", Loop())
    return session


@pytest.mark.parametrize(("prompt", "kind", "text"), [("raise", "Stopped", "no"), ("base", "Base", "deep")])
async def test_exceptions_keep_their_type(session: AmplifierSession, prompt: str, kind: str, text: str) -> None:
    """What the orchestrator raises reaches the caller as itself; the status remembers its text."""
    with pytest.raises(BaseException) as caught:
        await session.execute(prompt)

    assert type(caught.value).__name__ == kind
    assert caught.value.__cause__ is None
    assert session.status.status == "failed"
    assert session.status.last_error == {"message": text}


@pytest.mark.parametrize(
    ("point", "name", "message"),
    [
        ("orchestrator", None, "No orchestrator module mounted"),
        ("context", None, "No context manager mounted"),
        ("providers", "plain", "No providers mounted"),
    ],
)
async def test_something_is_missing(session: AmplifierSession, point: str, name: str | None, message: str) -> None:
    """Without orchestrator, context or providers a turn is a RuntimeError and the status failed."""
    await session.coordinator.unmount(point, name)

    with pytest.raises(RuntimeError) as caught:
        await session.execute("x")

    assert str(caught.value) == message
    assert session.status.status == "failed"
