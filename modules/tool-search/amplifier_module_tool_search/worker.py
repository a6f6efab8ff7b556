"""The process that searches where ripgrep does not: it reads the request from stdin and writes findings to stdout.

Its output has the format of ripgrep's, so that one parser reads both. It searches the folder it is started in. It is a
process because a regular expression may never end and a network share may never answer; a process can be killed.
Modules that only some searches need are imported there, so that the others finish sooner.
"""

from __future__ import annotations

import json
import signal
import sys

TYPE_CHECKING = False  # typing takes a tenth of the time in which a short listing is done
if TYPE_CHECKING:
    from typing import Final

    from amplifier_module_tool_search.walk import Hiding

#: Seconds past its time after which it ends by itself, in case the parent was killed.
_LEEWAY: Final = 5.0


def main(running: tuple[int, int] | None) -> int:
    """Run the request on stdin and return the exit code of ripgrep: 0 found, 1 not found, 2 failed.

    `running` is a process that lists files, and the descriptor of its output.
    """
    asked = json.loads(sys.stdin.buffer.read())
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"] + _LEEWAY)
    hiding = _hiding(asked["questions"])
    if asked["mode"] == "glob":
        from amplifier_module_tool_search.file_list import list_files

        return list_files(asked, running, hiding)
    from amplifier_module_tool_search.search import search

    return search(asked, hiding)


def _hiding(fd: int | None) -> Hiding | None:
    if fd is None:
        return None
    from amplifier_module_tool_search.hidden_client import Questions

    return Questions(fd).hidden
