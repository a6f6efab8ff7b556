"""The secrets of this process, from all its sessions, and the one redactor for every file that it writes.

A file may be written by a module, a session or the program itself, and a secret of one must not reach a file of
another, so they share one redactor. It masks secrets; personal data is the log's concern.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Final

from amplifier_kit.guard.private_files import secret_sources
from amplifier_kit.guard.redaction.known_values import live_values_from_env
from amplifier_kit.guard.redaction.redactor import Redactor

#: How many values are remembered at most; the newest are kept.
_MOST: Final = 2000

_lock: Final = threading.RLock()
_known: dict[str, None] = {}
_key_names: set[str] = set()
_environ: tuple[tuple[str, str], ...] = ()
_redactor: Redactor | None = None


def remember_secrets(values: Iterable[str]) -> None:
    """Mask these values, from now on, in every file that this process writes."""
    global _redactor
    with _lock:
        fresh = [value for value in dict.fromkeys(values) if isinstance(value, str) and value not in _known]
        if not fresh:
            return
        _known.update(dict.fromkeys(fresh))
        while len(_known) > _MOST:
            del _known[next(iter(_known))]
        if _redactor is not None:
            _redactor.add_live_values(fresh)


def known_secrets() -> tuple[str, ...]:
    """Return what `remember_secrets` was given."""
    return tuple(_known)


def remember_keys(names: Iterable[str]) -> None:
    """Treat these environment variables as the user's keys: no command inherits one of them, whatever its name."""
    with _lock:
        _key_names.update(names)


def known_keys() -> frozenset[str]:
    """Return the names that `remember_keys` was given."""
    with _lock:
        return frozenset(_key_names)


def process_redactor() -> Redactor:
    """Return the redactor for files; it knows the environment as it is now."""
    global _environ, _redactor
    with _lock:
        environ = tuple(os.environ.items())
        if _redactor is None:
            for find in secret_sources:
                _known.update(dict.fromkeys(find()))
            _redactor = Redactor((*_known, *live_values_from_env(os.environ)), rules=("secrets",))
        elif environ != _environ:
            _redactor.add_live_values(live_values_from_env(os.environ))
        _environ = environ
        return _redactor
