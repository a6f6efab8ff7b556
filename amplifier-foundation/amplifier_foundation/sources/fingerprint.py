"""Tell by a short text whether what was installed for a module is still right: same wishes, same interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LENGTH: Final = 16
_IGNORED: Final = frozenset({".git", "__pycache__", ".amplifier_cache_meta.json"})


def fingerprint(facts: Iterable[str | bytes], python: str = sys.executable) -> str:
    """Return 16 hex digits that change when a fact changes, or the interpreter is another one or was made anew.

    A rebuilt environment has the same path and version, and often the same files: what was installed against the old
    one must not be taken for installed. Raises OSError when the interpreter is gone.
    """
    import hashlib

    digest = hashlib.sha256()
    for fact in (*_interpreter(python), *facts):
        content = fact.encode("utf-8", "surrogateescape") if isinstance(fact, str) else fact
        digest.update(len(content).to_bytes(8, "big"))  # so that no two lists of facts read the same
        digest.update(content)
    return digest.hexdigest()[:_LENGTH]


def _interpreter(python: str) -> tuple[str, str, str, str]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return python, version, sys.implementation.cache_tag or "", str(os.lstat(python).st_mtime_ns)


def tree_facts(folder: Path) -> list[str | bytes]:
    """Return names and content of every file below a folder: for a module that is built, not run as it lies there."""
    facts: list[str | bytes] = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _IGNORED)
        for name in sorted(set(files) - _IGNORED):
            file = Path(path) / name
            facts.append(file.relative_to(folder).as_posix())
            facts.append(file.read_bytes() if file.is_file() else b"")
    return facts
