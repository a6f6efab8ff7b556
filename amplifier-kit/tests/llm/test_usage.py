"""Tokens and money."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import genai_prices
import pytest

from amplifier_core.message_models import Usage
from amplifier_kit.llm.prices import CostLedger, Tokens, price_of, priced_usage

#: Usage as services report it: vendor, flavour of its API, model, and the body's usage.
RECORDED: list[tuple[str, str, str, dict[str, Any]]] = (
    [
        (
            "anthropic",
            "default",
            model,
            {"input_tokens": a, "cache_read_input_tokens": r, "cache_creation_input_tokens": w, "output_tokens": o},
        )
        for model, a, r, w, o in [
            ("claude-sonnet-4-5", 2095, 0, 0, 503),
            ("claude-sonnet-4-5", 4, 18_000, 512, 1200),
            ("claude-opus-4-5", 10, 0, 4096, 64),
            ("claude-opus-4-6", 3, 150_000, 2_000, 8_000),
            ("claude-haiku-4-5", 900, 100, 50, 9),
            ("claude-3-5-haiku-latest", 12, 0, 0, 1),
            ("claude-opus-5", 77, 7_000, 70, 700),
            ("claude-sonnet-5", 1, 2, 3, 4),
        ]
    ]
    + [
        (
            "openai",
            "responses",
            model,
            {
                "input_tokens": i,
                "input_tokens_details": {"cached_tokens": c},
                "output_tokens": o,
                "output_tokens_details": {"reasoning_tokens": r},
            },
        )
        for model, i, c, o, r in [
            ("gpt-5.5", 1000, 0, 10, 0),
            ("gpt-5.5", 20_000, 18_432, 900, 640),
            ("gpt-5.4", 345, 128, 55, 20),
            ("gpt-4.1", 8_000, 1_024, 800, 0),
            ("gpt-4o-mini", 17, 0, 3, 0),
        ]
    ]
    + [
        (
            "openai",
            "chat",
            model,
            {"prompt_tokens": i, "prompt_tokens_details": {"cached_tokens": c}, "completion_tokens": o},
        )
        for model, i, c, o in [("gpt-5.5", 4_096, 2_048, 256), ("gpt-4o", 31, 0, 7)]
    ]
    + [
        (
            "google",
            "default",
            model,
            {"promptTokenCount": i, "cachedContentTokenCount": c, "candidatesTokenCount": o, "thoughtsTokenCount": t},
        )
        for model, i, c, o, t in [
            ("gemini-2.5-flash", 1500, 0, 300, 0),
            ("gemini-2.5-flash", 60_000, 50_000, 900, 1_100),
            ("gemini-2.5-pro", 100, 0, 20, 400),
            ("gemini-2.5-pro", 250_000, 100_000, 2_000, 3_000),
            ("gemini-2.5-flash-lite", 9, 0, 1, 0),
        ]
    ]
)


def _tokens(vendor: str, flavour: str, told: dict[str, Any]) -> Tokens:
    """Count as our providers do."""
    if vendor == "anthropic":
        read, written = told["cache_read_input_tokens"], told["cache_creation_input_tokens"]
        return Tokens(told["input_tokens"] + read + written, told["output_tokens"], read, written)
    if vendor == "google":
        output = told["candidatesTokenCount"] + told["thoughtsTokenCount"]
        return Tokens(told["promptTokenCount"], output, told["cachedContentTokenCount"])
    if flavour == "chat":
        cached = told["prompt_tokens_details"]["cached_tokens"]
        return Tokens(told["prompt_tokens"], told["completion_tokens"], cached)
    return Tokens(told["input_tokens"], told["output_tokens"], told["input_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize(("vendor", "flavour", "model", "told"), RECORDED)
def test_matches_the_price_list(vendor: str, flavour: str, model: str, told: dict[str, Any]) -> None:
    """A recorded usage costs what the price list makes of the service's own words for it."""
    root = "usageMetadata" if vendor == "google" else "usage"
    body = {"model": model, "modelVersion": model, root: told}
    extracted = genai_prices.extract_usage(body, provider_id=vendor, api_flavor=flavour)
    expected = extracted.calc_price().total_price
    assert expected > 0
    assert price_of(_tokens(vendor, flavour, told), model, vendor) == expected


def test_twenty_records() -> None:
    """There are as many records as were asked for."""
    assert len(RECORDED) == 20


def test_the_kernels_form() -> None:
    """Input is the prompt without what was written to the cache; the total is everything."""
    usage = Tokens(1000, 50, cache_read=600, cache_write=300, reasoning=20).usage(Decimal("0.1"))
    assert usage == Usage(
        input_tokens=700,
        output_tokens=50,
        total_tokens=1050,
        reasoning_tokens=20,
        cache_read_tokens=600,
        cache_write_tokens=300,
        cost_usd=Decimal("0.1"),
    )


def test_unknown_is_not_zero() -> None:
    """A model or a service without prices has an unknown cost."""
    assert price_of(Tokens(1, 1), "no-such-model", "anthropic") is None
    assert price_of(Tokens(1, 1), "gpt-5.5", None) is None
    assert price_of(Tokens(1, 1), "gpt-5.5", "no-such-service") is None


def test_more_that_costs_money() -> None:
    """Long-lived cache entries and searches are charged by their own prices."""
    plain = price_of(Tokens(1000, 1, cache_write=1000), "claude-sonnet-4-5", "anthropic")
    longer = Tokens(1000, 1, cache_write=1000, priced={"cache_write_1h_tokens": 1000})
    searched = Tokens(1000, 1, cache_write=1000, priced={"web_searches": 10})
    assert plain is not None
    for more in (longer, searched):
        assert (price_of(more, "claude-sonnet-4-5", "anthropic") or 0) >= plain


def test_without_the_price_list(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A missing price list makes costs unknown, and says so."""
    monkeypatch.setitem(__import__("sys").modules, "genai_prices", None)
    with caplog.at_level(logging.WARNING):
        assert price_of(Tokens(1, 1), "gpt-5.5", "openai") is None
    assert "genai-prices is not installed" in caplog.text


async def test_priced_usage() -> None:
    """The usage of a call holds its price."""
    assert (await priced_usage(Tokens(1000, 0), "claude-sonnet-4-5", "anthropic")).cost_usd == Decimal("0.003")
    assert (await priced_usage(Tokens(1000, 0), "x", None)).cost_usd is None


def test_ledger() -> None:
    """What is known is added up exactly, and what is not is named."""
    ledger = CostLedger()
    assert ledger.contribution() is None
    ledger.add(None, "b")
    assert ledger.contribution() == {"cost_usd": None, "unpriced_models": ["b"], "unpriced_calls": 1}
    for _ in range(3):
        ledger.add(Tokens(1, 1).usage(Decimal("0.1")), "a")
    ledger.add(Tokens(1, 1).usage(None), "b")
    assert ledger.contribution() == {"cost_usd": "0.3", "unpriced_models": ["b"], "unpriced_calls": 2}
