"""Sessions as applications run them and keep them: a kernel session with a folder, a log and a rule; and the store.

Names are imported when they are asked for: listing sessions must not cost the import of a kernel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.sessions.missing_modules import ModulesMissingError
    from amplifier_foundation.sessions.resume import SavedSession, load_session
    from amplifier_foundation.sessions.runtime import SessionRuntime

_HOMES = {
    "ModulesMissingError": "missing_modules",
    "SavedSession": "resume",
    "SessionRuntime": "runtime",
    "load_session": "resume",
}

__all__ = ["ModulesMissingError", "SavedSession", "SessionRuntime", "load_session"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
