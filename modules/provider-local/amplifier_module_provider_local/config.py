"""The config keys of the provider."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from amplifier_kit.config import PathText, expects
from amplifier_kit.llm.config import (
    Name,
    Number,
    PositiveNumber,
    PositiveWhole,
    ProviderConfig,
    Switch,
    Temperature,
    Whole,
    to_number,
)
from amplifier_kit.local_model import SMALL_MODEL

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(-?\d+(?:\.\d+)?)\s*([smh]?)")


def _duration(value: Any) -> Any:
    match = None if isinstance(value, bool) else _DURATION.fullmatch(str(value).strip().lower())
    return value if match is None else float(match[1]) * _UNITS[match[2]]


def _spare_cores() -> int:
    """Return all cores but one: with every core, anything else that runs slows the model to a crawl."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


class LocalConfig(ProviderConfig):
    """The config keys of the provider."""

    model_path: PathText | None = Field(
        None, description="A GGUF file, relative to the session's folder; null for an installed model."
    )
    default_model: Name = Field(
        SMALL_MODEL,
        description="Name of the model; qwen2.5-coder-1.5b by default where that is installed. A name that ends in "
        "`.gguf` is a `model_path`.",
    )
    working_dir: PathText | None = Field(None, description="Folder of relative paths; null for the session's.")
    context_window: Annotated[int, BeforeValidator(to_number), Field(ge=64)] | None = Field(
        None, description="Tokens that the model is loaded with; null for 4096, or at most 8192 with `model_path`."
    )
    max_tokens: PositiveWhole | None = Field(
        None, description="Tokens of the longest answer; null for 512 (smollm2), 1024 (qwen2.5-coder) or 4096."
    )
    temperature: Temperature = Field(
        0.7,
        description="Sampling temperature; null for the engine's default. By default 0 for smollm2, and for "
        "qwen2.5-coder 0.2, or 0 with tools.",
    )
    seed: Whole | None = Field(None, description="Seed for sampling: nearly the same answer to the same request.")
    lean: Switch | None = Field(
        None, description="Send a short prompt with at most four tools; null for true with an installed model."
    )
    keep_alive: Annotated[
        float,
        BeforeValidator(_duration),
        Field(allow_inf_nan=False),
        expects("seconds, or a time such as 10m or 2h"),
    ] = Field(300.0, description="How long an unused model stays in memory; below 0 for ever.")
    threads: PositiveWhole = Field(
        default_factory=_spare_cores, description="Threads of the engine; all cores but one by default."
    )
    batch_size: Annotated[int, BeforeValidator(to_number), Field(ge=32)] = Field(
        256, description="Tokens that are read at a time, and read to the end when a request is cancelled."
    )
    prompt_cache_mib: Whole = Field(128, description="Memory for the beginnings of other conversations, in MiB.")
    gpu_layers: Whole | None = Field(None, description="Layers on a graphics card; null for the engine's choice.")
    chat_template: Name | None = Field(None, description="Another chat template than the file's.")
    timeout: PositiveNumber = Field(300.0, description="Seconds to load the model.")
    max_retries: Whole = Field(2, description="Further attempts after errors that may pass, as a killed process.")
    min_retry_delay: Number = Field(0.1, description="Seconds before the first retry; they grow with each.")
    max_concurrent_requests: Whole = Field(1, description="Requests at the same time: the engine runs one.")

    @property
    def unload_after(self) -> float | None:
        """Seconds after which an unused model is unloaded; None for never."""
        return self.keep_alive if self.keep_alive >= 0 else None
