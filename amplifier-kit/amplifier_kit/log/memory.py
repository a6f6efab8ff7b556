"""Carry over, from one run of a session to the next, which lists of messages the log holds already.

Without it the next run writes its first list whole. That is all: the file may be deleted, and is ignored when it does
not fit the log that lies beside it.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from pathlib import Path
from typing import Any

from amplifier_kit.guard.private_files import replace_unmasked
from amplifier_kit.log.encoding import decode, digest, encode
from amplifier_kit.log.lists import Chain

_VERSION = 1
_CARRIED = 4


def save(path: Path, log: Path, line: bytes, chains: list[Chain]) -> None:
    """Write down the most recent lists, and that `line` is the last one of the log; raises OSError."""
    content = {
        "version": _VERSION,
        "end": log.stat().st_size,
        "line": len(line),
        "hash": digest(line),
        "lists": [[chain.name, b2a_base64(chain.digests, newline=False).decode()] for chain in chains[-_CARRIED:]],
    }
    replace_unmasked(path, encode(content))  # hashes, which no rule may touch


def load(path: Path, log: Path) -> list[Chain]:
    """Return the lists that were saved, or none when they were not or do not belong to this log."""
    try:
        content = decode(path.read_bytes())
        if content["version"] != _VERSION or not _fits(log, content):
            return []
        return [Chain(name, a2b_base64(digests)) for name, digests in content["lists"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _fits(log: Path, content: dict[str, Any]) -> bool:
    """Tell whether the log still has the line that was its last one when the lists were saved."""
    with log.open("rb") as file:
        file.seek(content["end"] - content["line"] - 1)
        line = file.read(content["line"] + 1)
    return line.endswith(b"\n") and digest(line[:-1]) == content["hash"]
