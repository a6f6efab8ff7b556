"""Ask whoever started this process which paths must be left out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

#: Paths that are asked for at once: whoever answers has other things to do.
_MOST: Final = 250


class Questions:
    """A line to somebody who answers; without an answer the process ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def hidden(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path below the current directory whether it is to be left out."""
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
