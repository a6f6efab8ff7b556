"""Keep folders on Python's import path for as long as a session needs them: another session must not find them."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Final

#: How many sessions need each folder that this module has put on the path. Like the path itself, one for the process.
_needed: Final[Counter[str]] = Counter()
#: Every folder that was ever held: what was imported from one stays in memory.
_known: Final[set[str]] = set()
_lock: Final = Lock()


def hold(folders: Iterable[Path]) -> Callable[[], None]:
    """Put folders at the end of `sys.path`, so that the program's own packages win; return what takes them off again.

    A folder that several sessions need stays until the last of them lets go, and one that was there before stays.
    """
    held: list[str] = []
    with _lock:
        for folder in dict.fromkeys(map(str, folders)):
            if folder in _needed:
                _needed[folder] += 1
            elif folder in sys.path:
                continue
            else:
                _needed[folder] = 1
                sys.path.append(folder)
            held.append(folder)
            _known.add(folder)
        if held:
            importlib.invalidate_caches()

    def release() -> None:
        with _lock:
            while held:
                folder = held.pop()
                _needed[folder] -= 1
                if _needed[folder] <= 0:
                    del _needed[folder]
                    if folder in sys.path:
                        sys.path.remove(folder)

    return release


def was_used() -> bool:
    """Return whether any session of this process had folders of its own."""
    return bool(_known)


def of_other_session(module_id: str, own: Iterable[Path]) -> Path | None:
    """Return the file that a module would be loaded from when that belongs to another session of this process.

    `own` are the folders of this session. A process loads a package once: whoever asks for it by its name alone gets
    the one that is there.
    """
    others = _known.difference(map(str, own))
    if not others:
        return None
    from importlib.util import find_spec

    package = f"amplifier_module_{module_id.replace('-', '_')}"
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None  # loading it says what is wrong
    origin = Path(spec.origin) if spec is not None and spec.origin is not None else None
    if origin is None or not any(origin.is_relative_to(folder) for folder in others):
        return None
    return origin
