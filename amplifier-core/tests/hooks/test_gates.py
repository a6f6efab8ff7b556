"""Gates: handlers whose failure denies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult


class Speechless(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Panic(BaseException):
    """An error like the panic of a native extension, which is no Exception."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("rules are gone"), "Gate 'rules' failed: rules are gone"),
        (ValueError(), "Gate 'rules' failed: ValueError"),
        (TimeoutError("of its own"), "Gate 'rules' failed: of its own"),
        (Speechless(), "Gate 'rules' failed: <unprintable Speechless>"),
        (
            asyncio.CancelledError(),
            "Gate 'rules' failed: it raised CancelledError although its task was not cancelled",
        ),
        (Panic("index out of bounds"), "Gate 'rules' failed: Panic: index out of bounds"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
async def test_raising_gate_denies(hooks: HookRegistry, error: BaseException, reason: str, later: bool) -> None:
    """A gate that raises denies, with its name in the reason, and no later handler runs."""

    async def async_gate(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        raise error

    def sync_gate(event: str, data: Any) -> None:
        raise error

    hooks.register("x:y", async_gate if later else sync_gate, name="rules", on_error="deny")
    hooks.register("x:y", lambda event, data: pytest.fail("after the deny"))
    assert await hooks.emit("x:y", {}) == HookResult(action="deny", reason=reason)


#: Built without validation; the action does not exist.
INVALID_RESULT = HookResult.model_construct(action="allow")  # type: ignore[arg-type]


@pytest.mark.parametrize("nonsense", ["yes", 1, {"action": "allow"}, INVALID_RESULT])
async def test_babbling_gate_denies(hooks: HookRegistry, nonsense: Any) -> None:
    """A gate that answers nonsense denies with its name, where others deny without."""
    hooks.register("x:y", lambda event, data: nonsense, name="rules", on_error="deny")
    result = await hooks.emit("x:y", {})
    assert result.action == "deny"
    assert result.reason is not None
    assert result.reason.startswith("Gate 'rules' failed: Hook handler returned invalid response: ")


async def test_default_is_to_continue(hooks: HookRegistry) -> None:
    """Without on_error="deny" a failing handler does not stop the event."""

    def broken(event: str, data: Any) -> None:
        raise ValueError

    hooks.register("x:y", broken)
    hooks.register("x:y", broken, on_error="continue")
    assert (await hooks.emit("x:y", {})).action == "continue"
