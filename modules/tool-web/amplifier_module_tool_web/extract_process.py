"""Run by itself, in a process that may be killed: read a page from standard input and write its readable text.

The first line is JSON: where packages are found, the page's URL, and what may be used up. Nothing is written when
there is nothing readable.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Read, extract, write; whatever goes wrong ends the process with an error, and its parent goes on without it."""
    request = json.loads(sys.stdin.buffer.readline())
    _limit(request["memory"], request["seconds"])
    sys.path[:] = request["packages"]
    import trafilatura

    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = trafilatura.extract(
        page,
        url=request["url"],
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    sys.stdout.buffer.write((text or "").encode("utf-8", "replace")[: request["most"]])


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:
        return  # not a POSIX system: the parent's deadline is what bounds this process
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    main()
