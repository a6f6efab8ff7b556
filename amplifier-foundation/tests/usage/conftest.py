"""What the tests of budgets share: a model service, and sessions that ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_testing.llm.server import ModelServer


@pytest.fixture
def service() -> Iterator[ModelServer]:
    """Give a model service of its own to each test."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def open_session(tmp_path: Path, service: ModelServer) -> Callable[..., SessionRuntime]:
    """Return a function that makes a session with a budget, whose model is behind the service.

    Tools whose action is `test.free` run unasked.
    """
    home = tmp_path / "home"
    home.mkdir()
    (home / "policy.yaml").write_text("rules: [{action: test.free, verdict: allow}]\n", encoding="utf-8")

    def make(budget: dict[str, Any], **provider: Any) -> SessionRuntime:
        config = {
            "name": "deepseek",
            "price_list": "deepseek",
            "default_model": "deepseek-chat",
            "base_url": f"{service.url}/v1",
            "min_retry_delay": 0,
            "max_retries": 2,
            **provider,
        }
        plan = {
            "session": {
                "orchestrator": {"module": "loop-basic"},
                "context": {"module": "context-simple"},
                "budget": budget,
            },
            "providers": [{"module": "provider-chat-completions", "config": config}],
            "hooks": [{"module": "hooks-logging"}],
        }
        return SessionRuntime(Prepared.from_plan(plan, home, tmp_path), environ={})

    return make
