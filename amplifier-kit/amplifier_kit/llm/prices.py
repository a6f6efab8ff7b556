"""Tokens and money: exact sums, and an unknown price is never zero."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from amplifier_core.message_models import Usage
from amplifier_kit.engine.usage import UsageRecord

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one call, however the service counts them.

    `prompt` is the whole prompt, including tokens read from and written to a cache; `output` includes the reasoning.
    `priced` counts anything else that costs money, under the names of genai-prices, as `cache_write_1h_tokens` or
    `web_searches`.
    """

    prompt: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    priced: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Tokens) -> Tokens:
        """Return the tokens of two calls that made one answer."""
        names = sorted({*self.priced, *other.priced})
        return Tokens(
            prompt=self.prompt + other.prompt,
            output=self.output + other.output,
            cache_read=_sum(self.cache_read, other.cache_read),
            cache_write=_sum(self.cache_write, other.cache_write),
            reasoning=_sum(self.reasoning, other.reasoning),
            priced={name: self.priced.get(name, 0) + other.priced.get(name, 0) for name in names},
        )

    def usage(self, cost: Decimal | None) -> Usage:
        """Return the kernel's form: `input_tokens` are those of the prompt that were not written to a cache."""
        return Usage(
            input_tokens=max(0, self.prompt - (self.cache_write or 0)),
            output_tokens=self.output,
            total_tokens=self.prompt + self.output,
            reasoning_tokens=self.reasoning,
            cache_read_tokens=self.cache_read,
            cache_write_tokens=self.cache_write,
            cost_usd=cost,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def price_of(tokens: Tokens, model: str, vendor: str | None) -> Decimal | None:
    """Return the cost of a call by the installed price list, None when it does not know the model.

    `vendor` is the price list's name for the service; None for a service without prices. Nothing is fetched.
    """
    if vendor is None:
        return None
    try:
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price
    except ImportError:
        logger.warning("the price list genai-prices is not installed: costs are unknown")
        return None
    counts = {"cache_read_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write, **tokens.priced}
    known = {name: count for name, count in counts.items() if count}
    usage = PricedUsage(input_tokens=tokens.prompt, output_tokens=tokens.output, **known)
    try:
        return calc_price(usage, model, provider_id=vendor).total_price
    except (LookupError, ValueError) as error:
        logger.debug("no price for %s of %s: %s", model, vendor, error)
        return None


async def priced_usage(tokens: Tokens, model: str, vendor: str | None) -> Usage:
    """Return the usage with its price; the price list is first loaded in a thread, since that takes a while."""
    if vendor is None or "genai_prices" in sys.modules:
        return tokens.usage(price_of(tokens, model, vendor))
    return tokens.usage(await asyncio.to_thread(price_of, tokens, model, vendor))


class CostLedger:
    """The sum of the costs of one provider, which it contributes on `session.cost`."""

    def __init__(self) -> None:
        self._used: dict[str, UsageRecord] = {}

    def add(self, usage: Usage | None, model: str) -> None:
        self._used[model] = self._used.get(model, UsageRecord()) + UsageRecord.of_usage(usage)

    def contribution(self) -> dict[str, Any] | None:
        """Return the sum of the known costs, None before the first call.

        `cost_usd` is None when no call had a price; `unpriced_models` names the models without one.
        """
        if not self._used:
            return None
        used = sum(self._used.values(), UsageRecord())
        known: dict[str, Any] = {"cost_usd": str(used.known_cost) if used.priced else None}
        if used.unpriced:
            known["unpriced_models"] = sorted(model for model, one in self._used.items() if one.unpriced)
            known["unpriced_calls"] = used.unpriced
        return known
