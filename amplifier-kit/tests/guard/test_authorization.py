"""Asking the session: what cannot be asked denies, and a kernel without policies is warned about once."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard import authorization
from amplifier_kit.guard.authorization import Permission, authorize, kernel_has_policies

_DETAILS = {"tool_name": "write_file"}


@pytest.mark.parametrize("verdict", ["allow", "deny"])
async def test_the_session_decides(verdict: str) -> None:
    """Where there are policies, theirs is the answer."""
    coordinator = MockCoordinator()
    coordinator.register_policy("rules", lambda action, details: (verdict, "because"), 0)
    assert await authorize(coordinator, "filesystem.write", _DETAILS) == Permission(verdict == "allow", "because")


@pytest.mark.parametrize("granted", [1, "yes", None, "True"])
async def test_only_true_grants(granted: Any) -> None:
    """What is merely true in a condition is no permission."""

    async def ask(action: str, details: Any) -> Any:
        return SimpleNamespace(granted=granted, reason="r")

    assert not (await authorize(SimpleNamespace(authorize=ask), "a.b", {})).granted


async def test_a_question_that_fails_is_a_no() -> None:
    """An error on the way denies and is named; a cancellation is raised."""

    async def broken(action: str, details: Any) -> Any:
        raise OSError("gone")

    async def cancelled(action: str, details: Any) -> Any:
        raise asyncio.CancelledError

    assert await authorize(SimpleNamespace(authorize=broken), "a.b", {}) == Permission(
        False,
        "the question could not be asked: gone",
    )
    with pytest.raises(asyncio.CancelledError):
        await authorize(SimpleNamespace(authorize=cancelled), "a.b", {})


@pytest.mark.parametrize("coordinator", [None, object(), SimpleNamespace(authorize=None, session_id="s")])
async def test_on_our_kernel_a_missing_authorize_denies(coordinator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in for a coordinator: the branch for other kernels is not taken."""
    monkeypatch.delattr(authorization, "_grant_without_policies")
    assert kernel_has_policies()
    assert not (await authorize(coordinator, "filesystem.write", _DETAILS)).granted


async def test_a_kernel_without_policies_is_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There the config and hooks have decided; every session has one warning."""
    monkeypatch.setattr(authorization, "kernel_has_policies", lambda: False)
    monkeypatch.setattr(authorization, "_warned", set())
    with caplog.at_level(logging.WARNING):
        for session in ("one", "two", "one", "two"):
            assert (await authorize(SimpleNamespace(session_id=session), "a.b", {})).granted
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == ["one", "two"]
