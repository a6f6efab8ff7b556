"""The view for a conversation at a terminal. `chat()` is its entry point; `Recap` says how much of the past it shows.

The names are imported on first use: commands that do not chat import nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_app_cli.chat.recap import RECENT_TURNS, Recap
    from amplifier_app_cli.chat.start import chat

_MODULES = {"RECENT_TURNS": "recap", "Recap": "recap", "chat": "start"}

__all__ = ["RECENT_TURNS", "Recap", "chat"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
