"""The meter learns from what providers report, and only from answers to its own requests."""

from typing import Any

import pytest

from amplifier_kit.engine.context.token_budget import TokenMeter
from amplifier_kit.engine.usage import UsageRecord

VIEW = [{"role": "user", "content": "hello"}]
_NOTHING: list[dict[str, Any]] = [{}, {"usage": None}, {"usage": "Usage(...)"}, {"status": "error"}]


def response(input_tokens: Any, cache_write_tokens: Any = None) -> UsageRecord:
    usage = {"input_tokens": input_tokens, "cache_write_tokens": cache_write_tokens, "output_tokens": 5}
    return UsageRecord.of_response({"usage": usage})


def test_usage_is_input_plus_cache_writes() -> None:
    """What a request took is its input tokens and what was written to the cache."""
    meter = TokenMeter()
    assert meter.usage() is None
    assert meter.view() is None
    meter.expect(VIEW, 1000, 5000)
    meter.record(response(700, 500))
    usage = {
        "input_tokens": 700,
        "cache_write_tokens": 500,
        "measured_tokens": 1200,
        "estimated_tokens": 1000,
        "budget": 5000,
    }
    assert meter.usage() == usage
    assert meter.view() == {**usage, "messages": VIEW}
    assert meter.ratio == 1.2


@pytest.mark.parametrize(
    "answer",
    [
        *(UsageRecord.of_response(data) for data in _NOTHING),
        *map(response, (None, -5, "many", 200)),
    ],
)
def test_what_is_no_answer_to_the_request_is_ignored(answer: UsageRecord) -> None:
    """Errors, nonsense and the small answers of background requests teach nothing; the real answer still counts."""
    meter = TokenMeter()
    meter.expect(VIEW, 1000, 5000)
    meter.record(answer)
    assert meter.usage() is None
    meter.record(response(1500))
    assert meter.ratio == 1.5


def test_an_answer_without_a_request_is_ignored() -> None:
    """Only one answer counts per request."""
    meter = TokenMeter()
    meter.record(response(900))
    assert meter.usage() is None
    meter.expect(VIEW, 1000, 5000)
    meter.record(response(1000))
    meter.record(response(9000))
    assert meter.ratio == 1.0


def test_the_ratio_moves_in_steps() -> None:
    """Small differences change nothing, so that views stay steady; large ones count at once, up to a factor of 8."""
    meter = TokenMeter()
    for measured, expected in ((950, 1.0), (1010, 1.05), (1040, 1.05), (960, 1.05), (940, 0.95), (99_000, 8.0)):
        meter.expect(VIEW, 1000, 5000)
        meter.record(response(measured))
        assert meter.ratio == expected
