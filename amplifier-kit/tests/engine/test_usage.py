"""Usage records: read once from what a provider reports, and added in any order."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import Usage
from amplifier_kit.engine.usage import UsageRecord, money

NOTHING = UsageRecord()

_counts = st.one_of(st.none(), st.integers(0, 10**9))
_costs = st.one_of(st.none(), st.decimals(0, 10**6, places=12))
_usages = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": _counts,
        "output_tokens": _counts,
        "total_tokens": _counts,
        "reasoning_tokens": _counts,
        "cache_read_tokens": _counts,
        "cache_write_tokens": _counts,
        "cost_usd": _costs.map(lambda cost: None if cost is None else str(cost)),
    },
)
_responses = st.fixed_dictionaries(
    {"status": st.sampled_from(["ok", "error"]), "provider": st.just("p"), "model": st.sampled_from(["m", "n"])},
    optional={
        "usage": _usages | st.none(),
        "duration_ms": st.integers(0, 10**6) | st.floats(0, 10**6),
        "unpriced_attempts": st.integers(0, 3),
        "error": st.fixed_dictionaries({"type": st.sampled_from(["RateLimitError", "StreamError"])}),
    },
)
_records = _responses.map(UsageRecord.of_response)


@given(_records, _records, _records)
def test_records_add_up_in_any_grouping(one: UsageRecord, two: UsageRecord, three: UsageRecord) -> None:
    """Addition is associative and commutative, and nothing added to a record is that record."""
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert one + NOTHING == NOTHING + one == one


@given(st.lists(_records, max_size=8).flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_the_order_of_answers_does_not_change_a_sum(lists: tuple[list[UsageRecord], list[UsageRecord]]) -> None:
    """A sum is the same in whatever order answers came, and its cost is known only if every part of it is."""
    told, shuffled = lists
    total = sum(told, NOTHING)
    assert total == sum(shuffled, NOTHING)
    assert (total.cost is None) == (not told or any(one.unpriced for one in told))
    assert total.known_cost == sum((one.known_cost for one in told), Decimal(0))


@given(_records, _records)
def test_the_difference_of_two_sums_is_what_came_between(before: UsageRecord, more: UsageRecord) -> None:
    """What was added can be read off two sums."""
    since = (before + more) - before
    assert before + since == before + more
    assert (since.cost, since.unpriced, since.total_tokens) == (more.cost, more.unpriced, more.total_tokens)


@given(st.lists(_records, max_size=5))
def test_metadata_hold_what_is_shown(records: list[UsageRecord]) -> None:
    """What session metadata hold of a sum is the same after it was read and written again."""
    facts = sum(records, NOTHING).facts()
    assert UsageRecord.of_facts(json.loads(json.dumps(facts))).facts() == facts


def test_a_response_is_read_once_for_all() -> None:
    """Counts by kind, the exact price, the model and the time are those of the payload."""
    usage = Usage(
        input_tokens=700,
        output_tokens=50,
        total_tokens=1050,
        reasoning_tokens=20,
        cache_read_tokens=600,
        cache_write_tokens=300,
        cost_usd=Decimal("0.1"),
    )
    answer = {"provider": "p", "model": "m", "status": "ok", "duration_ms": 12.6}
    read = UsageRecord.of_response({**answer, "usage": usage.model_dump()})
    assert read == UsageRecord(
        1, 700, 50, 600, 300, 20, 1050, Decimal("0.1"), priced=1, duration_ms=13, models=frozenset({"p/m"})
    )
    assert UsageRecord.of_usage(usage).usage() == usage.model_dump(exclude_none=True)
    assert read.cost == Decimal("0.1")


@pytest.mark.parametrize("value", ["many", True, -5, 1.5, float("nan"), float("inf"), 10**30, []])
@pytest.mark.parametrize("name", ["input_tokens", "cache_write_tokens", "cost_usd"])
def test_an_invalid_value_is_unknown(name: str, value: Any) -> None:
    """A value that cannot be counted is not counted as zero: it stays unknown, and so does the price."""
    if name == "cost_usd" and value == 1.5:
        return  # a price may be a fraction
    used = UsageRecord.of_usage({"output_tokens": 2, "cost_usd": "0.5", name: value})
    assert (used.output_tokens, used.input_tokens, used.cache_write_tokens) == (2, None, None)
    assert (used.cost, used.unpriced, used.priced) == (None, 1, 0)


@pytest.mark.parametrize(
    ("data", "cost", "unpriced", "broken"),
    [
        ({"status": "error", "error": {"type": "RateLimitError"}}, Decimal(0), 0, 0),
        ({"status": "error", "error": {"type": "StreamError"}, "unpriced_attempts": 0}, Decimal(0), 0, 0),
        ({"status": "error", "error": {"type": "CancelledError"}}, None, 1, 1),
        ({"status": "error"}, None, 1, 1),
        ({"status": "ok"}, None, 1, 0),
        ({"status": "ok", "usage": "Usage(...)"}, None, 1, 0),
        ({"status": "ok", "usage": {"cost_usd": "2"}, "unpriced_attempts": 2}, None, 2, 2),
        ({"status": "error", "usage": {"cost_usd": "2"}}, Decimal(2), 0, 0),
    ],
)
def test_a_call_without_an_answer(data: dict[str, Any], cost: Any, unpriced: int, broken: int) -> None:
    """A call that was refused costs nothing; one that broke off may have cost something, and is not free."""
    used = UsageRecord.of_response(data)
    assert (used.cost, used.unpriced, used.broken, used.calls) == (cost, unpriced, broken, 1)


@pytest.mark.parametrize("facts", [None, "much", [], {"input_tokens": "x", "cost_usd": {}, "calls_without_price": -1}])
def test_damaged_metadata_hold_nothing(facts: Any) -> None:
    """What is invalid in the metadata of a session is left out of its sum."""
    assert UsageRecord.of_facts(facts) == NOTHING


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("0", "$0.00"),
        ("0.00009", "<$0.0001"),
        ("0.0001", "$0.0001"),
        ("0.00412", "$0.0041"),
        ("0.7", "$0.7000"),
        ("0.995", "$1.00"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_money(amount: str, expected: str) -> None:
    """An amount is shown as exactly as its size needs, and a small one is never shown as nothing."""
    assert money(Decimal(amount)) == expected
