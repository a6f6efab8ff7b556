"""The abilities of Claude models, by family and version in their names."""

from __future__ import annotations

import re
from typing import Final

from amplifier_core import ModelInfo, capabilities
from amplifier_kit.named_tuple import NamedTuple

_NEW_NAME: Final = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d)(?:-(?P<minor>\d{1,2}))?(?![\d])")
_OLD_NAME: Final = re.compile(r"claude-(?P<major>3)(?:-(?P<minor>\d))?-(?P<family>[a-z]+)")
_MILLION: Final = 1_000_000
_WINDOW: Final = 200_000


class Abilities(NamedTuple):
    """The limits and features of a model."""

    context_window: int = _WINDOW
    max_output: int = 64_000
    #: Whether it thinks at all, and whether it decides by itself how much.
    thinks: bool = True
    adapts: bool = False
    #: Whether it accepts a temperature; the newest do not.
    takes_temperature: bool = True
    takes_effort: bool = False
    #: Whether it accepts an output schema.
    takes_schema: bool = False
    #: Whether a beta header gives it a window of a million tokens.
    has_long_context_beta: bool = False
    is_fast: bool = False


def abilities_of(model: str) -> Abilities:
    """Return the abilities of a model; an unknown name counts as a recent model with modest limits."""
    name = model.lower()
    old = _OLD_NAME.search(name)
    if old is not None:
        return _third_generation(int(old["minor"] or 0), old["family"])
    new = _NEW_NAME.search(name)
    if new is None:
        return Abilities(takes_schema=True)
    family, version = new["family"], (int(new["major"]), int(new["minor"] or 0))
    is_large = version >= ((5, 0) if family == "haiku" else (4, 6))
    if not is_large:
        is_first_opus = family == "opus" and version < (4, 5)
        return Abilities(
            max_output=32_000 if is_first_opus else 64_000,
            takes_effort=family == "opus" and version >= (4, 5),
            takes_schema=version >= (4, 1),
            has_long_context_beta=family == "sonnet",
            is_fast=family == "haiku",
        )
    return Abilities(
        context_window=_MILLION,
        max_output=64_000 if family == "haiku" else 128_000,
        adapts=True,
        takes_temperature=version < (4, 7),
        takes_effort=True,
        takes_schema=True,
        is_fast=family == "haiku",
    )


def _third_generation(minor: int, family: str) -> Abilities:
    if minor >= 7:
        return Abilities()
    return Abilities(max_output=8192 if minor == 5 else 4096, thinks=False, is_fast=family == "haiku")


def model_info(model: str, *, long_context: bool = False, display_name: str | None = None) -> ModelInfo:
    """Describe a model; `long_context` means that the beta header for long context is sent."""
    known = abilities_of(model)
    window = _MILLION if long_context and known.has_long_context_beta else known.context_window
    able = [capabilities.TOOLS, capabilities.STREAMING, capabilities.VISION]
    able += [capabilities.THINKING] if known.thinks else []
    able += [capabilities.JSON_MODE] if known.takes_schema else []
    able += [capabilities.FAST] if known.is_fast else []
    able += [capabilities.LONG_CONTEXT] if window >= _MILLION else []
    return ModelInfo(
        id=model,
        display_name=display_name or model,
        context_window=window,
        max_output_tokens=known.max_output,
        capabilities=able,
    )
