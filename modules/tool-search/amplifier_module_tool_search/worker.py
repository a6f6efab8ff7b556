"""The process that searches where ripgrep does not: what it is asked comes from stdin, what it finds goes to stdout.

It writes what ripgrep writes, so that one reader understands both. It works in the folder it is started in. It is a
process because a regular expression may take for ever, and a network share may never answer; both can be killed.
What only some searches need is imported by those: the others are done sooner.
"""

from __future__ import annotations

import json
import signal
import sys

TYPE_CHECKING = False  # typing takes a tenth of the time in which a short listing is done
if TYPE_CHECKING:
    from typing import Final

    from amplifier_module_tool_search.walk import Hiding

#: Seconds after which it ends by itself, when whoever should have stopped it is gone.
_LEEWAY: Final = 5.0


def main(running: tuple[int, int] | None) -> int:
    """Do what is asked on stdin and return the exit code of ripgrep: 0 found, 1 not found, 2 trouble.

    `running` is a process whose output lists files, and where to read that.
    """
    asked = json.loads(sys.stdin.buffer.read())
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] + _LEEWAY)
    hiding = _hiding(asked["questions"])
    if asked["mode"] == "glob":
        from amplifier_module_tool_search.listing import list_files

        return list_files(asked, running, hiding)
    from amplifier_module_tool_search.search import search

    return search(asked, hiding)


def _hiding(fd: int | None) -> Hiding | None:
    if fd is None:
        return None
    from amplifier_module_tool_search.questions import Questions

    return Questions(fd).hidden
