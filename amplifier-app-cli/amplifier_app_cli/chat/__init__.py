"""Talk with a session at a terminal: the prompt, the answer while it arrives, and everything a person may do meanwhile.

Names are imported when they are asked for: whoever wants one of them does not pay for all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_app_cli.chat.approval import TerminalApproval
    from amplifier_app_cli.chat.start import chat

_HOMES = {"TerminalApproval": "approval", "chat": "start"}

__all__ = ["TerminalApproval", "chat"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
