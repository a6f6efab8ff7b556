"""Amounts of money: exact in memory, text on the wire."""

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

__all__ = ["CostUSD"]


def _refuse_float(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(
            "cost_usd must be Decimal, not float: a float cannot hold most amounts exactly; "
            "pass Decimal('0.01') or the string '0.01'"
        )
    return value


#: Dollars. None means unknown, which is not zero. Strings and ints are taken, floats refused; dumps are strings.
CostUSD = Annotated[Decimal, BeforeValidator(_refuse_float), PlainSerializer(str, return_type=str)]
