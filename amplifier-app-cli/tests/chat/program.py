"""Start a chat as the program does, with what its command line would give; run by the tests as a process."""

from __future__ import annotations

import argparse
import asyncio
import sys

from amplifier_app_cli import signals
from amplifier_app_cli.app import App
from amplifier_app_cli.chat import chat
from amplifier_app_cli.session_request import SessionRequest
from amplifier_app_cli.ui.say import show_warnings
from amplifier_foundation.sessions.store import SessionStore


def main() -> int:
    """Return the exit code of the chat."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--no-input", action="store_true")
    parser.add_argument("--patience", type=float, help="seconds for a blocked event loop, instead of the program's")
    given = parser.parse_args()
    if given.patience is not None:
        for name in ("_PATIENCE", "_LONG_PATIENCE"):
            setattr(signals, name, given.patience)
    app = App(no_input=given.no_input)
    newest = SessionStore(app.home).newest(app.project) if given.resume else None
    request = SessionRequest(given.bundle, trust=given.trust, resume=newest.id if newest is not None else None)
    show_warnings()
    return asyncio.run(chat(app, request))


if __name__ == "__main__":
    sys.exit(main())
