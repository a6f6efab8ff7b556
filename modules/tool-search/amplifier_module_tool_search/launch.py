"""The first file of the process that searches by itself or sorts: `launch.py FOLDER... -- [PROGRAM ARGUMENT...]`.

The program, ripgrep, is started before anything is loaded that it need not wait for; the folders are where our package
and its library are.
"""

import gc
import os
import sys


def launch() -> int:
    """Start the program, if there is one, and do the work."""
    gc.disable()  # it ends soon, and makes no cycles worth looking for
    place = sys.argv.index("--")
    listed = start(sys.argv[place + 1 :])
    sys.path += sys.argv[1:place]
    from amplifier_module_tool_search.worker import main

    return main(listed)


def start(argv: list[str]) -> tuple[int, int] | None:
    """Start a program; return its number, and where its output can be read."""
    if not argv:
        return None
    source, sink = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_CLOSE, source)]
    pid = os.posix_spawn(argv[0], argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions)
    os.close(sink)
    return pid, source


if __name__ == "__main__":
    sys.exit(launch())
