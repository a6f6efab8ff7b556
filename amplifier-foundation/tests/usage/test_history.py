"""What a session used: counted while it runs, known from before when it goes on."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.child_session import call_usage
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.usage.history import facts_at_start, past_cost
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.log.writer import SessionLog

NOW = "2026-06-01T00:00:00+00:00"


def _log(folder: Path, *costs: tuple[str, Any], **more: Any) -> Path:
    with SessionLog(folder) as log:
        for at, cost in costs:
            log.write({"event": "llm:response", "ts": at, "data": {"usage": {"cost_usd": cost}}, **more})
    return folder


@pytest.mark.parametrize("was_used", [False, True])
@pytest.mark.parametrize("known", [None, "much", [], {"input_tokens": "x", "cost_usd": {}, "since": 5}])
def test_what_makes_no_sense_is_left_out(known: Any, was_used: bool) -> None:
    """A sum that is damaged starts again, from now on where there were turns that nobody has counted."""
    assert facts_at_start(known, NOW, was_used=was_used) == ({"since": NOW} if was_used else {})


def test_the_sum_of_the_metadata_is_enough(tmp_path: Path) -> None:
    """Where everything was counted the log is not read."""
    _log(tmp_path, ("2026-01-01T00:00:00+00:00", "5"))
    assert past_cost({"cost_usd": "0.25", "input_tokens": 3}, tmp_path, NOW) == Decimal("0.25")
    assert past_cost({"input_tokens": 3}, tmp_path, NOW) is None


def test_what_was_not_counted_is_in_the_log(tmp_path: Path) -> None:
    """Costs from before anybody counted are taken from the log, those from after that are not taken twice."""
    _log(tmp_path, ("2026-01-01T00:00:00+00:00", "5"), ("2026-03-01T00:00:00+00:00", "0.5"))
    assert past_cost(None, tmp_path, NOW) == Decimal("5.5")
    known = {"cost_usd": "0.5", "since": "2026-02-01T00:00:00+00:00"}
    assert past_cost(known, tmp_path, NOW) == Decimal("5.5")
    assert past_cost(None, tmp_path / "nothing", NOW) is None


def test_costs_of_the_original_are_not_those_of_a_fork(tmp_path: Path) -> None:
    """Lines that a fork has copied from its original cost the fork nothing."""
    _log(tmp_path, ("2026-01-01T00:00:00+00:00", "5"), parent_session_id="original")
    assert past_cost(None, tmp_path, NOW) is None


def _prepared(tmp_path: Path) -> Prepared:
    (tmp_path / "scenario.yaml").write_text(
        json.dumps({"repeat": True, "turns": [{"text": "x", "usage": {"cost_usd": "0.25"}}]})
    )
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(tmp_path / "scenario.yaml")}}],
        "hooks": [{"module": "hooks-logging"}],
    }
    return Prepared.from_plan(plan, tmp_path / "home", tmp_path)


async def _cost(runtime: SessionRuntime) -> Decimal:
    given = await runtime.session.coordinator.collect_contributions("session.cost")
    return sum((Decimal(one["cost_usd"]) for one in given), Decimal(0))


@pytest.mark.parametrize("forgets", [False, True])
async def test_the_cost_of_a_session_is_that_of_all_its_turns(tmp_path: Path, forgets: bool) -> None:
    """Earlier turns count in `session.cost` after a resume, each once, whether or not the metadata counted them."""
    prepared = _prepared(tmp_path)
    async with SessionRuntime(prepared, environ={}) as runtime:
        await runtime.execute("one")
        assert await _cost(runtime) == Decimal("0.25")
    path = runtime.folder / "metadata.json"
    if forgets:  # as the published program, which counts nothing there
        path.write_text(
            json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "usage"})
        )
    for turns in (2, 3):
        async with SessionRuntime(prepared, saved=load_session(runtime.folder), environ={}) as again:
            assert await _cost(again) == Decimal("0.25") * (turns - 1)
            await again.execute("more")
            assert await _cost(again) == Decimal("0.25") * turns
    usage = json.loads(path.read_text())["usage"]
    assert usage["cost_usd"] == ("0.50" if forgets else "0.75")
    assert ("since" in usage) is forgets


def test_what_a_call_used_names_every_count() -> None:
    """A count that a call did not raise is zero and not missing: its reader need not ask whether it is there."""
    session = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 0, "cost_usd": "1"}
    used = call_usage(UsageRecord.of_usage({"input_tokens": 2, "cost_usd": "0.5"}), session)
    assert used == {"input_tokens": 2, "output_tokens": 0, "cache_read_tokens": 0, "cost_usd": "0.5"}
