"""What modules may learn and set of a session's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.sessions.store import SessionNameError, SessionStore

ANSWER = json.dumps({"action": "set", "name": "Flaky upload test", "description": "It fails now and then."})


def _runtime(tmp_path: Path, *responses: str, hooks: tuple[str, ...] = ()) -> SessionRuntime:
    plan: dict[str, Any] = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"responses": list(responses)}}],
        "hooks": [{"module": module} for module in hooks],
    }
    return SessionRuntime(Prepared.from_plan(plan, tmp_path / "home", tmp_path), environ={})


def _metadata(runtime: SessionRuntime) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((runtime.folder / "metadata.json").read_bytes())
    return data


async def test_a_session_is_named_after_its_second_turn(tmp_path: Path) -> None:
    """With hooks-session-naming, name and description are in the metadata when the session has ended."""
    async with _runtime(tmp_path, "one", "two", ANSWER, hooks=("hooks-session-naming",)) as runtime:
        await runtime.execute("Why does the upload test fail?")
        assert "name" not in _metadata(runtime)
        await runtime.execute("Fix it.")
    data = _metadata(runtime)
    assert (data["name"], data["description"]) == ("Flaky upload test", "It fails now and then.")
    assert data["turn_count"] == 2
    assert {"name_generated_at", "description_updated_at"} <= data.keys()


async def test_a_name_that_is_taken_is_numbered(tmp_path: Path) -> None:
    """Two sessions of a project never have the same name, which finds one of them."""
    names = []
    for _ in range(3):
        async with _runtime(tmp_path, "one") as runtime:
            await runtime.execute("go")
            naming = runtime.session.coordinator.get_capability("session.naming")
            assert naming.facts()["turn_count"] == 1
            names.append(naming.set("x" * 50, "Said."))
    assert names == ["x" * 50, f"{'x' * 47} 2", f"{'x' * 47} 3"]


async def test_the_users_name_stays_when_only_the_description_is_set(tmp_path: Path) -> None:
    """Without a name, the description is set alone; an invalid name is refused."""
    async with _runtime(tmp_path, "one") as runtime:
        await runtime.execute("go")
        SessionStore(runtime.prepared.home).rename(str(runtime.folder), "Mine")
        naming = runtime.session.coordinator.get_capability("session.naming")
        assert naming.set(None, "Said.") is None
        assert (naming.facts()["name"], naming.facts()["description"]) == ("Mine", "Said.")
        with pytest.raises(SessionNameError):
            naming.set("two\nlines", "Said.")
