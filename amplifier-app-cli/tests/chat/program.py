"""Start a chat as the program does, with what its command line would give; run by the tests as a process."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from amplifier_app_cli import unheard
from amplifier_app_cli.app import App
from amplifier_app_cli.chat import chat
from amplifier_app_cli.ui.diagnostics import show_warnings
from amplifier_foundation.plan.prepare import Options
from amplifier_foundation.sessions import load_session
from amplifier_foundation.sessions.store import SessionStore


def main() -> int:
    """Return the exit code of the chat."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--no-input", action="store_true")
    parser.add_argument("--no-thinking", action="store_true")
    parser.add_argument("--patience", type=float, help="seconds for a blocked event loop, instead of the program's")
    given = parser.parse_args()
    if given.patience is not None:
        for name in ("_PATIENCE", "_LONG_PATIENCE"):
            setattr(unheard, name, given.patience)
    app = App(no_input=given.no_input)
    options = Options(app.home, app.project, bundle=given.bundle, trust=given.trust, environ=os.environ)
    newest = SessionStore(app.home).newest(app.project) if given.resume else None
    saved = load_session(newest.folder) if newest is not None else None
    show_warnings()
    return asyncio.run(chat(app, options, resume=saved, show_thinking=not given.no_thinking))


if __name__ == "__main__":
    sys.exit(main())
