"""Sessions: run them (`runtime`), find them on disk (`store`), resume, fork, export, repair and delete them.

A session is a folder:

- `events.jsonl` and `blobs/`, the log and its large values, written by `amplifier_kit.log`; `log` cuts and copies it;
- `transcript.jsonl`, the messages (`transcript`), which `turns` counts and cuts;
- `metadata.json`, its name, project, model and counters (`metadata`);
- `record.json`, the plan it ran with (`recorder` writes it, `resume` reads it);
- `checkpoints/`, the files that its tools overwrote (`checkpoints`, with `file_states`).

`store` is the way to all of them; `index` keeps its lists fast. `runtime` runs a session, with the help of `plan`,
`capabilities` and `recorder`. Names are imported on first use: listing sessions must not import the kernel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.sessions.plan import ModulesMissingError
    from amplifier_foundation.sessions.resume import SavedSession, load_session
    from amplifier_foundation.sessions.runtime import SessionRuntime

_MODULES = {
    "ModulesMissingError": "plan",
    "SavedSession": "resume",
    "SessionRuntime": "runtime",
    "load_session": "resume",
}

__all__ = ["ModulesMissingError", "SavedSession", "SessionRuntime", "load_session"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
