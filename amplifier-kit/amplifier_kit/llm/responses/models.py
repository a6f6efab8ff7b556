"""The abilities of OpenAI's models, by their names."""

from __future__ import annotations

import re
from typing import Final

from amplifier_core import ModelInfo, capabilities
from amplifier_kit.named_tuple import NamedTuple

#: Reasoning efforts, from least to most.
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_GPT: Final = re.compile(r"gpt-?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?P<rest>.*)")
_O_SERIES: Final = re.compile(r"(?:^|[/:.-])o(?P<major>[1-9])(?P<rest>$|-.*)")
_LONG: Final = 1_000_000
_FAST: Final = re.compile("-(mini|nano|luna)")


class Abilities(NamedTuple):
    """The limits and features of a model."""

    context_window: int = 128_000
    max_output: int = 16_384
    #: The larger window, whose tokens cost more; None without one.
    long_window: int | None = None
    #: The reasoning efforts that it accepts; empty when it does not think.
    efforts: tuple[str, ...] = ()
    sees: bool = True
    takes_schema: bool = True
    takes_functions: bool = True
    #: Whether it has a native tool for patches.
    patches: bool = False
    #: Whether its prompt caches can be kept for a day.
    caches_long: bool = False
    #: Whether it takes so long that its answers are polled for.
    runs_in_background: bool = False
    is_fast: bool = False
    #: Whether the name was recognised.
    is_known: bool = True

    @property
    def thinks(self) -> bool:
        return bool(self.efforts)

    def effort(self, wish: str) -> str:
        """Return the accepted effort nearest to a wish, rather less than more."""
        if wish in self.efforts or wish not in EFFORTS or not self.efforts:
            return wish
        lower = [effort for effort in self.efforts if EFFORTS.index(effort) < EFFORTS.index(wish)]
        return lower[-1] if lower else self.efforts[0]


_USUAL: Final = ("low", "medium", "high")
_UNKNOWN: Final = Abilities(is_known=False)


def abilities_of(model: str) -> Abilities:
    """Return the abilities of a model; one with an unknown name counts as not thinking."""
    name = model.lower()
    if "deep-research" in name:
        return Abilities(
            context_window=200_000,
            max_output=100_000,
            efforts=("medium",),
            takes_schema=False,
            takes_functions=False,
            runs_in_background=True,
        )
    if "gpt-oss" in name:
        return Abilities(context_window=131_072, max_output=32_768, efforts=_USUAL, sees=False)
    if "codex-mini" in name and "gpt" not in name:
        return Abilities(context_window=200_000, max_output=100_000, efforts=_USUAL, is_fast=True)
    gpt = _GPT.search(name)
    if gpt is not None:
        return _gpt((int(gpt["major"]), int(gpt["minor"] or 0)), gpt["rest"])
    series = _O_SERIES.search(name)
    if series is not None:
        return Abilities(context_window=200_000, max_output=100_000, efforts=_USUAL, is_fast="mini" in series["rest"])
    return _UNKNOWN


def _gpt(version: tuple[int, int], rest: str) -> Abilities:
    fast = bool(_FAST.search(rest))
    if version < (4, 0):
        return Abilities(context_window=16_385, max_output=4096, sees=False, takes_schema=False)
    if version == (4, 0):
        if rest.startswith("o"):
            return Abilities(is_fast=fast)
        is_turbo = "turbo" in rest
        window, output = (128_000, 4096) if is_turbo else (8192, 8192)
        return Abilities(context_window=window, max_output=output, sees=is_turbo, takes_schema=False)
    if version < (5, 0):
        is_41 = version == (4, 1)
        small = Abilities(is_fast=fast, caches_long=is_41 and not fast)
        return small._replace(context_window=1_047_576, max_output=32_768) if is_41 else small
    if "chat" in rest:
        return Abilities(caches_long=version >= (5, 1))
    return Abilities(
        context_window=400_000,
        max_output=272_000 if version == (5, 0) and "pro" in rest else 128_000,
        long_window=1_050_000 if version >= (5, 4) and not re.search("-(mini|nano)", rest) else None,
        efforts=_efforts(version, rest),
        patches=version >= (5, 1),
        caches_long=version >= (5, 1) or not (fast or "pro" in rest),
        is_fast=fast,
    )


def _efforts(version: tuple[int, int], rest: str) -> tuple[str, ...]:
    more: tuple[str, ...] = ("xhigh",) if version >= (5, 2) or "codex-max" in rest else ()
    more += ("max",) if version >= (5, 6) else ()
    if "pro" in rest:
        return ("high",) if version == (5, 0) else ("medium", "high", *more)
    if "codex" in rest:
        return (*_USUAL, *more)
    return ("minimal" if version == (5, 0) else "none", *_USUAL, *more)


def describe(model: str, able: Abilities, *, long_context: bool = False) -> ModelInfo:
    """Describe a model; with `long_context`, with its larger window."""
    window = able.long_window if long_context and able.long_window else able.context_window
    known = {
        capabilities.TOOLS: able.takes_functions,
        capabilities.STREAMING: not able.runs_in_background,
        capabilities.VISION: able.sees,
        capabilities.THINKING: able.thinks,
        capabilities.JSON_MODE: able.takes_schema,
        capabilities.FAST: able.is_fast,
        capabilities.DEEP_RESEARCH: able.runs_in_background,
        capabilities.LONG_CONTEXT: window >= _LONG,
    }
    return ModelInfo(
        id=model,
        display_name=model,
        context_window=window,
        max_output_tokens=able.max_output,
        capabilities=[name for name, has in known.items() if has],
    )
