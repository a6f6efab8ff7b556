"""Sizes and durations as people write them: `2g`, `512`, `20m`, `1.5h`."""

from __future__ import annotations

import math
import re
from typing import Final

_SIZES: Final = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([a-z]*)", re.ASCII)
#: Nothing anybody means is longer than this, and clocks overflow beyond it.
_LONGEST: Final = 10 * 365 * 86400.0
_LARGEST: Final = 2**62


def parse_size(value: object) -> int:
    """Return bytes for `512`, `"20m"` or `"1.5g"` (units of 1024; `mb` and `mib` are `m`); raise ValueError."""
    number, unit = _split(value)
    if unit not in _SIZES and unit.endswith("b"):
        unit = unit.removesuffix("b").removesuffix("i")
    if unit not in _SIZES or not _is_size(number, unit):
        raise ValueError("a size is a number of bytes, or a number with k, m, g or t: 512m, 2g")
    return int(number * _SIZES[unit])


def parse_duration(value: object) -> float:
    """Return seconds for `90`, `"20m"` or `"500ms"` (units ms, s, m, h, d); raise ValueError."""
    number, unit = _split(value)
    if unit not in _SECONDS or not math.isfinite(number) or number * _SECONDS[unit] > _LONGEST:
        raise ValueError("a duration is a number of seconds, or a number with ms, s, m, h or d: 90s, 20m")
    return float(number * _SECONDS[unit])


def show_size(size: int) -> str:
    """Return the shortest exact way to write a size; `parse_size` gives it back."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return str(size)


def show_duration(seconds: float) -> str:
    """Return the shortest way to write a duration, to the millisecond; `parse_duration` gives it back."""
    thousandths = round(seconds * 1000)
    for unit in ("d", "h", "m", "s"):
        whole = round(_SECONDS[unit] * 1000)
        if thousandths and thousandths % whole == 0:
            return f"{thousandths // whole}{unit}"
    return f"{thousandths}ms" if thousandths else "0s"


def _is_size(number: float, unit: str) -> bool:
    return math.isfinite(number) and number * _SIZES[unit] <= _LARGEST


def _split(value: object) -> tuple[float, str]:
    """Return number and unit in lower case; nan when it is neither a number nor written like one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (value, "") if 0 <= value <= _LARGEST else (math.nan, "")
    found = _QUANTITY.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        return math.nan, ""
    digits = found[1]
    return (float(digits) if "." in digits else int(digits)), found[2]
