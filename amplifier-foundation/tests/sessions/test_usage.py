"""What a session used: counted while it runs, known from before when it goes on."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.message_models import Usage as Used
from amplifier_foundation.log import SessionLog
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.sessions import SessionRuntime, load_session
from amplifier_foundation.sessions.usage import Usage, past_cost, used_since

NOW = "2026-06-01T00:00:00+00:00"


def _log(folder: Path, *costs: tuple[str, Any], **more: Any) -> Path:
    with SessionLog(folder) as log:
        for at, cost in costs:
            log.write({"event": "llm:response", "ts": at, "data": {"usage": {"cost_usd": cost}}, **more})
    return folder


def test_answers_are_added_up() -> None:
    """Tokens and prices are added exactly, and an answer without a price is counted as such, not as free."""
    usage = Usage()
    for cost in ("0.1", 0.2, None, "nan", "much"):
        usage.add({"input_tokens": 2, "cost_usd": cost})
    usage.add({"input_tokens": 2, "output_tokens": True, "cost_usd": "9"})  # whoever counts so knows no price either
    usage.add(Used(input_tokens=1, output_tokens=1, total_tokens=2, cost_usd=Decimal("0.05")))
    usage.add("nothing", 1)  # an attempt that broke off
    assert usage.facts == {"input_tokens": 13, "cost_usd": "0.35", "calls_without_price": 5, "output_tokens": 1}
    assert usage.cost == Decimal("0.35")


@pytest.mark.parametrize("known", [None, "much", [], {"input_tokens": "x", "cost_usd": {}, "since": 5}])
def test_what_makes_no_sense_is_left_out(known: Any) -> None:
    """A sum that somebody has damaged starts anew."""
    assert Usage(known).facts == {}


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


@pytest.mark.parametrize("before", [{}, {"input_tokens": 2, "output_tokens": 3, "cost_usd": "1"}])
def test_what_was_used_since_then_names_every_count(before: dict[str, Any]) -> None:
    """A count that did not grow is zero and not missing: whoever reads it need not ask whether it is there."""
    now = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 0, "cost_usd": "1"}
    more = used_since(before, now)
    assert more["input_tokens"] == 7 - before.get("input_tokens", 0)
    assert more["output_tokens"] == 3 - before.get("output_tokens", 0)
    assert more["cache_read_tokens"] == 0
    assert "calls_without_price" not in more
