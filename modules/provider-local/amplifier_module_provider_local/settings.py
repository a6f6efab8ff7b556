"""The config keys that are this provider's alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amplifier_kit.llm import read_bool, read_float, read_int

__all__ = ["LocalSettings"]

_KEEP_ALIVE: Final = 300.0
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(-?\d+(?:\.\d+)?)\s*([smh]?)")


@dataclass(frozen=True)
class LocalSettings:
    """Hold the provider's own settings."""

    #: None for the model that comes with `amplifier provider install local`.
    model_path: Path | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    temperature: float | None = 0.7
    seed: int | None = None
    threads: int = 1
    batch_size: int = 256
    prompt_cache_mib: int = 128
    gpu_layers: int | None = None
    chat_template: str | None = None
    keep_alive: float | None = _KEEP_ALIVE
    #: None for: with the small model, not with others.
    lean: bool | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any], folder: Path) -> LocalSettings:
        """Read a config, paths relative to `folder`; raises ValueError that names the key and what it must be."""
        layers = config.get("gpu_layers")
        template = config.get("chat_template")
        return cls(
            model_path=_path(config, folder),
            context_window=read_int(config, "context_window", 0, least=64) or None,
            max_tokens=read_int(config, "max_tokens", 0, least=1) or None,
            temperature=None if config.get("temperature", "") is None else read_float(config, "temperature", 0.7),
            seed=read_int(config, "seed", 0) if config.get("seed") not in (None, "") else None,
            threads=read_int(config, "threads", _spare_cores(), least=1),
            batch_size=read_int(config, "batch_size", 256, least=32),
            prompt_cache_mib=read_int(config, "prompt_cache_mib", 128),
            gpu_layers=None if layers in (None, "") else read_int(config, "gpu_layers", 0),
            chat_template=str(template) if template else None,
            keep_alive=_keep_alive(config.get("keep_alive")),
            lean=None if config.get("lean") in (None, "") else read_bool(config, "lean", True),
        )


def _path(config: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the file of the model: `model_path`, or a model that is named by its file."""
    given = config.get("model_path")
    named = str(config.get("default_model") or config.get("model") or "")
    text = str(given) if given else (named if named.endswith(".gguf") else "")
    return folder / Path(text).expanduser() if text else None


def _keep_alive(given: Any) -> float | None:
    """Return seconds, None for ever: a number, or a text as "10m"; anything below 0 is for ever."""
    if given is None or given == "":
        return _KEEP_ALIVE
    match = None if isinstance(given, bool) else _DURATION.fullmatch(str(given).strip().lower())
    if match is None:
        raise ValueError(f"keep_alive: must be seconds, or a time such as 10m or 2h, got {given!r}")
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if seconds >= 0 else None


def _spare_cores() -> int:
    """Return all cores but one: with every core, anything else that runs slows the model to a crawl."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)
