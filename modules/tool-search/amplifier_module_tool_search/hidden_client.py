"""Ask the parent process which paths are hidden."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

#: Paths in one question: the parent's event loop must not be held up.
_MOST: Final = 250


class Questions:
    """A connection to the parent; without an answer this process ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def hidden(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path below the current directory whether it is hidden."""
        return [is_hidden for start in range(0, len(paths), _MOST) for is_hidden in self._ask(paths[start:][:_MOST])]

    def _ask(self, paths: Sequence[str]) -> list[bool]:
        question = json.dumps(paths).encode() + b"\n"
        while question:
            question = question[os.write(self._fd, question) :]
        answer = b""
        while len(answer) < len(paths):
            part = os.read(self._fd, len(paths) - len(answer))
            if not part:
                sys.exit(3)
            answer += part
        return [byte != 0 for byte in answer]
