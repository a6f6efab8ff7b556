"""The readable text of a page, made where nothing that a page does to its parser can hurt the session."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Final

from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_program
from amplifier_kit.threads import run_stoppable
from amplifier_module_tool_web.text import plain_text

logger = logging.getLogger(__name__)

#: Seconds for one page.
DEADLINE: float = 10.0
#: Bytes of memory for one page.
MEMORY: int = 2 * 1024**3
#: Longer pages are not parsed, only stripped of their tags.
LONGEST: int = 4 * 1024 * 1024
#: A readable text under this many characters may be a mistake: the whole page's text is given, if it has more.
SHORT: int = 250
_READER: Final = Path(__file__).with_name("extract_process.py")
#: All that the reader gets to know of this process's environment.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")


async def read(page: str, url: str) -> str:
    """Return the readable text of a page as Markdown, or all of its text where none can be made out."""
    text = (await _readable(page, url)).strip() if len(page) <= LONGEST else ""
    if len(text) >= SHORT:
        return text
    plain = await asyncio.to_thread(plain_text, page)
    return text if text and len(plain) < 2 * len(text) else plain


async def _readable(page: str, url: str) -> str:
    request = {
        # Without the current folder, which is the project's: its modules must not be imported.
        "packages": [path for path in sys.path if os.path.isabs(path)],
        "url": url,
        "memory": MEMORY,
        "seconds": int(DEADLINE) + 1,
        "most": 4 * LONGEST,
    }
    data = json.dumps(request).encode() + b"\n" + page.encode("utf-8", "replace")
    try:
        # A thread, which can be waited for when the caller is cancelled: the process is gone before this returns.
        return (await run_stoppable(lambda stop: _run_reader(data, stop), grace=None)).decode("utf-8", "replace")
    except _UnreadableError as error:
        logger.warning("tool-web: %s: returning the page's text without its tags only: %s", url, error)
        return ""


class _UnreadableError(Exception):
    """The reader failed, or took too long."""


def _run_reader(data: bytes, stop: threading.Event) -> bytes:
    environ = {name: os.environ[name] for name in _PASSED if name in os.environ}
    command = [sys.executable, "-I", "-B", "-X", "utf8", str(_READER)]
    try:
        done = run_program(
            command, timeout=DEADLINE, environment=environ, data=data, is_split=True, limit=16 * LONGEST, stop=stop
        )
    except CommandTimeoutError:
        raise _UnreadableError(f"reading it takes longer than {DEADLINE:g} s") from None
    except OSError as error:
        raise _UnreadableError(str(error)) from error
    if done.returncode:
        raise _UnreadableError(f"reading it failed ({done.returncode})")
    return done.stdout
