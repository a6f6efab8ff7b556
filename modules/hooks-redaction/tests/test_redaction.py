"""Redaction in a session: what is written, and what runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK
from amplifier_module_hooks_redaction import mount, on_session_ready

ENV_SECRET = "env-secret-value-1"
PLAN_SECRET = "plan-secret-value-2"


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> MockCoordinator:
    """Return a coordinator whose plan and environment hold secrets."""
    monkeypatch.setenv("SOME_API_KEY", ENV_SECRET)
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.config["providers"] = [{"module": "provider-x", "config": {"api_key": PLAN_SECRET}}]
    return coordinator


async def logged(coordinator: MockCoordinator, config: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    """Mount the module, log one record and return it as a sink gets it."""
    lines: list[dict[str, Any]] = []
    await mount(coordinator, config)
    coordinator.add_log_sink(lines.append)
    coordinator.log("INFO", "", event="tool:post", **data)
    [line] = lines
    return line


async def test_known_secrets_are_masked(coordinator: MockCoordinator) -> None:
    """Secrets of the environment, the plan and the config reach no sink."""
    config = {"live_values": ["config-secret-3"]}
    line = await logged(coordinator, config, result=f"{ENV_SECRET} {PLAN_SECRET} config-secret-3")
    assert line["data"] == {"result": f"{MASK} {MASK} {MASK}"}
    assert line["redaction"] == {"applied": True, "rules": ["live_value"], "counts": {"live_value": 3}}


async def test_names_patterns_and_personal_data_are_masked(coordinator: MockCoordinator) -> None:
    """Without any config, secrets are found by name and form, and personal data by form."""
    line = await logged(
        coordinator, password="x", result="password=hunter2a", to="jane@example.com", error="token=1a2b3c4d"
    )
    assert line["data"] == {"password": MASK, "result": f"password={MASK}", "to": PII_MASK}
    assert line["error"] == {"message": f"token={MASK}"}
    assert line["redaction"]["counts"] == {"key_name": 1, "pattern": 2, "pii": 1}


async def test_ids_and_times_stay(coordinator: MockCoordinator) -> None:
    """What joins and orders records is never masked, even where a secret of the environment is the same text."""
    ids = dict.fromkeys(("session_id", "tool_call_id", "request_id"), ENV_SECRET)
    line = await logged(coordinator, None, **ids, timestamp="2026-11-15")
    assert (line["session_id"], line["request_id"], line["ts"]) == (ENV_SECRET, ENV_SECRET, "2026-11-15")
    assert line["data"] == {"tool_call_id": ENV_SECRET}
    assert "redaction" not in line


async def test_nothing_that_runs_is_changed(coordinator: MockCoordinator) -> None:
    """Handlers, and whoever emitted, see every event as it is."""
    await mount(coordinator, {})
    await on_session_ready(coordinator)
    heard: list[Any] = []
    coordinator.hooks.register("tool:pre", lambda event, data: heard.append(data["tool_input"]), priority=1000)
    result = await coordinator.hooks.emit("tool:pre", {"tool_input": {"password": ENV_SECRET}})
    assert result.action == "continue"
    assert result.data is not None
    assert result.data["tool_input"] == {"password": ENV_SECRET}
    assert heard == [{"password": ENV_SECRET}]


async def test_other_writers_get_the_same_redactor(coordinator: MockCoordinator) -> None:
    """The capabilities scrub by the same rules, and make secrets known for the log too."""
    await mount(coordinator, {})
    scrub = coordinator.get_capability("redaction.scrub")
    message = {"role": "user", "content": f"use {ENV_SECRET} and later-secret-4"}
    assert scrub(message) == {"role": "user", "content": f"use {MASK} and later-secret-4"}
    coordinator.get_capability("redaction.add_live_values")(["later-secret-4"])
    assert scrub(message) == {"role": "user", "content": f"use {MASK} and {MASK}"}
    lines: list[dict[str, Any]] = []
    coordinator.add_log_sink(lines.append)
    coordinator.log("INFO", "later-secret-4")
    assert lines[0]["data"] == {"message": MASK}


async def test_secrets_that_come_while_the_session_is_built(
    coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What modules put into the environment at mount is known when the session is ready."""
    await mount(coordinator, {})
    monkeypatch.setenv("LATE_TOKEN", "late-token-value")
    await on_session_ready(coordinator)
    assert coordinator.get_capability("redaction.scrub")("late-token-value") == MASK


async def test_ready_without_mount_does_nothing(coordinator: MockCoordinator) -> None:
    """A module that was taken out again has nothing to learn."""
    await on_session_ready(coordinator)
    assert coordinator.get_capability("redaction.scrub") is None


async def test_rules_can_be_chosen(coordinator: MockCoordinator) -> None:
    """With one rule the other kind is let through; an allowed field is not masked by name."""
    config = {"rules": ["secrets"], "allowlist": ["token"]}
    line = await logged(coordinator, config, to="jane@example.com", token="next-page", password="x")
    assert line["data"] == {"to": "jane@example.com", "token": "next-page", "password": MASK}


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        ({"rules": ["secret"]}, "unknown rules ['secret']"),
        ({"rule": ["secrets"]}, "unknown config key 'rule': did you mean 'rules'?"),
        ({"rules": 3}, "config key 'rules' must be a list of strings, got 3"),
        ({"live_values": {"hidden": "hidden-value"}}, "config key 'live_values' must be a list of strings, got dict"),
    ],
)
async def test_a_mistake_does_not_switch_redaction_off(
    coordinator: MockCoordinator, caplog: pytest.LogCaptureFixture, config: dict[str, Any], warning: str
) -> None:
    """A config that makes no sense is reported, without its values, and everything is masked."""
    with caplog.at_level(logging.WARNING):
        line = await logged(coordinator, config, password="x", to="jane@example.com", it=ENV_SECRET)
    assert line["data"] == {"password": MASK, "to": PII_MASK, "it": MASK}
    assert warning in caplog.text
    assert "hidden-value" not in caplog.text


async def test_one_text_is_a_list_of_one(coordinator: MockCoordinator) -> None:
    """A single value instead of a list is understood."""
    line = await logged(coordinator, {"live_values": "only-secret-value"}, it="only-secret-value")
    assert line["data"] == {"it": MASK}


async def test_it_fails_closed(coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """When scrubbing fails, the line is written without its data."""
    await mount(coordinator, {})
    redactor = coordinator.get_capability("redaction._hook_state")["redactor"]
    monkeypatch.setattr(redactor, "_scrub", lambda *_: 1 / 0)
    lines: list[dict[str, Any]] = []
    coordinator.add_log_sink(lines.append)
    coordinator.log("INFO", "", event="tool:post", session_id="s-1", result=ENV_SECRET)
    assert lines[0]["data"] == {}
    assert lines[0]["session_id"] == "s-1"
    assert lines[0]["redaction"] == {"applied": False, "error": "scrub_failed"}
    assert coordinator.get_capability("redaction.scrub")({"a": ENV_SECRET}) == MASK


async def test_in_a_session(plan: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real session no line that reaches a sink holds a secret, from the first event to the last."""
    monkeypatch.setenv("SOME_API_KEY", ENV_SECRET)
    lines: list[dict[str, Any]] = []
    session = AmplifierSession(plan(metadata={"token": PLAN_SECRET, "note": f"{ENV_SECRET}!"}))
    session.coordinator.add_log_sink(lines.append)
    async with session:
        answer = await session.execute(f"say {ENV_SECRET} and {PLAN_SECRET}")
    assert answer == f"say {ENV_SECRET} and {PLAN_SECRET}"
    assert [line["event"] for line in lines] == ["session:start", "prompt:submit", "prompt:complete", "session:end"]
    assert ENV_SECRET not in json.dumps(lines)
    assert PLAN_SECRET not in json.dumps(lines)
    assert lines[0]["data"]["metadata"] == {"token": MASK, "note": f"{MASK}!"}
