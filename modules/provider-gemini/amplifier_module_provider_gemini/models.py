"""The abilities of Gemini models, by their names."""

from __future__ import annotations

import re
from typing import Final

from amplifier_core import ModelInfo, capabilities
from amplifier_kit.named_tuple import NamedTuple

_VERSION: Final = re.compile(r"gemini-(?P<major>\d+)(?:\.(?P<minor>\d+))?(?!\d)")
_MILLION: Final = 1_048_576


class Abilities(NamedTuple):
    """The limits and features of a model."""

    context_window: int = _MILLION
    max_output: int = 65_536
    thinks: bool = True
    #: Whether thinking is set by a level, else by a token budget between the two limits.
    has_levels: bool = False
    least_budget: int = 0
    most_budget: int = 24_576
    #: Whether it has the thinking levels `minimal` and `medium`.
    has_minimal: bool = False
    has_medium: bool = True
    #: Whether it accepts an output schema together with tools, and images inside of results.
    is_third: bool = False
    is_fast: bool = False
    takes_tools: bool = True


def abilities_of(model: str) -> Abilities:
    """Return the abilities of a model; a Gemini without a version counts as 2.5, any other name as a small model."""
    name = model.lower().removeprefix("models/")
    if "gemini" not in name:
        return Abilities(context_window=32_768, max_output=8192, thinks=False)
    found = _VERSION.search(name)
    version = (int(found["major"]), int(found["minor"] or 0)) if found is not None else (2, 5)
    is_fast, is_pro, is_painter = "flash" in name, "pro" in name, "-image" in name
    if version < (2, 5):
        window = 2 * _MILLION if is_pro and version == (1, 5) else _MILLION
        return Abilities(context_window=window, max_output=8192, thinks=False, is_fast=is_fast)
    if version < (3, 0):
        return Abilities(
            max_output=32_768 if is_painter else 65_536,
            thinks=not is_painter,
            least_budget=128 if is_pro else 0,
            most_budget=32_768 if is_pro else 24_576,
            is_fast=is_fast,
            takes_tools=not is_painter,
        )
    return Abilities(
        most_budget=32_768,
        has_levels=True,
        has_minimal=is_fast,
        has_medium=is_fast or version > (3, 0),
        is_third=True,
        is_fast=is_fast,
    )


def model_info(
    model: str, *, display_name: str | None = None, window: int | None = None, output: int | None = None
) -> ModelInfo:
    """Describe a model; the given limits win over the known ones."""
    known = abilities_of(model)
    longest = window or known.context_window
    able = [capabilities.STREAMING, capabilities.VISION, capabilities.JSON_MODE]
    able += [capabilities.TOOLS] if known.takes_tools else []
    able += [capabilities.THINKING] if known.thinks else []
    able += [capabilities.FAST] if known.is_fast else []
    able += [capabilities.LONG_CONTEXT] if longest >= 1_000_000 else []
    return ModelInfo(
        id=model,
        display_name=display_name or model,
        context_window=longest,
        max_output_tokens=output or known.max_output,
        capabilities=able,
    )
