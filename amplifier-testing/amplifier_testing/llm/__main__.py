"""Run a scripted service on this machine, to try providers with no network and no key.

    python -m amplifier_testing.llm chat --say "Good morning." --model small --key not-a-real-key

It prints its address, without a path, and answers until it is ended.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from amplifier_testing.llm.server import ModelServer
from amplifier_testing.llm.service import PROTOCOLS, Service

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM, SIGINT or the given time."""
    parser = argparse.ArgumentParser(prog="python -m amplifier_testing.llm", description=__doc__.split("\n\n")[0])
    parser.add_argument("protocol", choices=sorted(PROTOCOLS), help="the protocol to speak")
    parser.add_argument("--say", default="Hello world", metavar="TEXT", help="what the model answers, always")
    parser.add_argument("--model", action="append", default=[], help="a model to have; may be repeated")
    parser.add_argument("--key", help="refuse requests with another key")
    parser.add_argument("--seconds", type=float, help="end by itself after so many seconds")
    given = parser.parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with ModelServer() as server:
        server.answers(Service(given.protocol, models=tuple(given.model), key=given.key, text=given.say).answer)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        ended.wait(given.seconds)


if __name__ == "__main__":
    main()
