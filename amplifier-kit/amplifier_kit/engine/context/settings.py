"""Read the configuration of a context manager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Final, Self

from amplifier_kit.engine.context.clip import SMALLEST_LIMIT

__all__ = ["ContextSettings"]

logger = logging.getLogger(__name__)

VERBOSITIES: Final = ("minimal", "normal", "verbose")
METERS: Final = ("estimate", "actual")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """Say how large a request may be and how it is made to fit; the keys are those of the module's config."""

    #: The most a request may take, however much the model can; None for no cap.
    max_tokens: int | None = None
    #: The budget when neither the caller, nor the provider, nor `max_tokens` names one.
    max_tokens_fallback: int = 200_000
    #: How much of the model's longest answer is kept free.
    output_reserve_fraction: float = 0.5
    #: What requests are measured with: `estimate`, or `actual`, which learns from what providers report.
    token_meter: str = "estimate"
    #: The UTF-8 bytes of text that one tool result may have in the ledger.
    max_tool_result_bytes: int = 131_072
    #: The share of the budget above which a request is compacted.
    compact_threshold: float = 0.92
    #: The share of the budget that compaction aims at.
    target_usage: float = 0.50
    #: The share of the newest messages that is removed last.
    protected_recent: float = 0.30
    #: How many of the newest tool results are not truncated.
    protected_tool_results: int = 5
    #: How many characters a truncated tool result keeps.
    truncate_chars: int = 250
    compaction_notice_enabled: bool = True
    compaction_notice_token_reserve: int = 800
    compaction_notice_verbosity: str = "normal"
    compaction_notice_min_level: int = 1
    #: Names of capabilities `(text) -> text` that the instructions pass, in order.
    instruction_filters: tuple[str, ...] = ()
    #: Seconds that the system prompt factory, and each filter, may take.
    instruction_callback_timeout_s: float = 5.0
    #: How many of those that are no coroutine functions may run at once, in threads.
    instruction_callback_max_workers: int = 4

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | None,
        *,
        defaults: Mapping[str, Any] | None = None,
        also_known: Collection[str] = (),
        module: str = "context",
    ) -> Self:
        """Read a module's config; None and absent keys take the default.

        An invalid `max_tokens` is ignored with a warning, as is a key that neither this class nor `also_known` has.
        Raises ValueError for any other value out of range, naming the module, the key and what is accepted.
        """
        given = dict(defaults or {})
        given.update((key, value) for key, value in (config or {}).items() if value is not None)
        known = {field.name for field in fields(cls)}
        for key in sorted(given.keys() - known - set(also_known), key=str):
            _warn_unknown(module, str(key), known | set(also_known))
        values = {key: _READERS[key](module, key, given[key]) for key in known & given.keys()}
        return cls(**values)


def _warn_unknown(module: str, key: str, known: Collection[str]) -> None:
    from difflib import get_close_matches  # rarely needed, and every start would pay for it

    close = get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    logger.warning("%s: unknown config key %r is ignored%s", module, key, hint)


def _refuse(module: str, key: str, value: Any, accepted: str) -> ValueError:
    return ValueError(f"{module}: config {key} must be {accepted}, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cap(module: str, key: str, value: Any) -> int | None:
    if _is_whole(value) and value > 0:
        return int(value)
    logger.warning("%s: config %s must be a positive whole number, got %r; it is ignored", module, key, value)
    return None


def _at_least(least: int) -> Callable[[str, str, Any], int]:
    def read(module: str, key: str, value: Any) -> int:
        if not _is_whole(value) or value < least:
            raise _refuse(module, key, value, f"a whole number of at least {least}")
        return int(value)

    return read


def _share(*, zero: bool) -> Callable[[str, str, Any], float]:
    def read(module: str, key: str, value: Any) -> float:
        if not _is_number(value) or not 0 <= value <= 1 or not (value or zero):
            raise _refuse(module, key, value, f"a number from {'0' if zero else 'above 0'} to 1")
        return float(value)

    return read


def _choice(choices: tuple[str, ...]) -> Callable[[str, str, Any], str]:
    def read(module: str, key: str, value: Any) -> str:
        if value not in choices:
            raise _refuse(module, key, value, f"one of {', '.join(choices)}")
        return str(value)

    return read


def _switch(module: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(module, key, value, "true or false")
    return value


def _seconds(module: str, key: str, value: Any) -> float:
    if not _is_number(value) or value <= 0:
        raise _refuse(module, key, value, "a positive number of seconds")
    return float(value)


def _names(module: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name for name in value):
        raise _refuse(module, key, value, "a list of capability names")
    return tuple(value)


_READERS: Final[dict[str, Callable[[str, str, Any], Any]]] = {
    "max_tokens": _cap,
    "max_tokens_fallback": _at_least(1),
    "output_reserve_fraction": _share(zero=True),
    "token_meter": _choice(METERS),
    "max_tool_result_bytes": _at_least(SMALLEST_LIMIT),
    "compact_threshold": _share(zero=False),
    "target_usage": _share(zero=False),
    "protected_recent": _share(zero=True),
    "protected_tool_results": _at_least(0),
    "truncate_chars": _at_least(0),
    "compaction_notice_enabled": _switch,
    "compaction_notice_token_reserve": _at_least(0),
    "compaction_notice_verbosity": _choice(VERBOSITIES),
    "compaction_notice_min_level": _at_least(0),
    "instruction_filters": _names,
    "instruction_callback_timeout_s": _seconds,
    "instruction_callback_max_workers": _at_least(1),
}
