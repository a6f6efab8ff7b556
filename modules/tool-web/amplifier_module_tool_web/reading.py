"""The readable text of a page, made where nothing that a page does to its parser can hurt the session."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_kit.guard.processes.launch import PIPE, open_process
from amplifier_module_tool_web.plain import plain_text

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

logger = logging.getLogger(__name__)

#: Seconds for one page.
DEADLINE: float = 10.0
#: Bytes of memory for one page.
MEMORY: int = 2 * 1024**3
#: Longer pages are not parsed, only stripped of their tags.
LONGEST: int = 4 * 1024 * 1024
#: A readable text under this many characters may be a mistake: the whole page's text is given, if it has more.
SHORT: int = 250
_READER: Final = Path(__file__).with_name("reader.py")
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
    told = {
        # Not the current folder, which is the project's: no page shall be read by what lies there.
        "packages": [path for path in sys.path if os.path.isabs(path)],
        "url": url,
        "memory": MEMORY,
        "seconds": int(DEADLINE) + 1,
        "most": 4 * LONGEST,
    }
    source = json.dumps(told).encode() + b"\n" + page.encode("utf-8", "replace")
    reader = _Reader(source)
    try:
        return (await reader.run()).decode("utf-8", "replace")
    except _UnreadableError as error:
        logger.warning("tool-web: %s: the page is given without its tags only: %s", url, error)
        return ""


class _UnreadableError(Exception):
    """The reader did not come to an end."""


class _Reader:
    """One process that reads one page. It runs beside a thread, as a thread can be waited for when it is cancelled."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._is_stopped = False

    async def run(self) -> bytes:
        """Return what the process wrote; raise _UnreadableError. When cancelled, the process is gone before it ends."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[bytes | _UnreadableError] = loop.create_future()

        def work() -> None:
            try:
                result: bytes | _UnreadableError = self._work()
            except Exception as error:
                result = _UnreadableError(str(error))
            try:
                loop.call_soon_threadsafe(ended.set_result, result)
            except RuntimeError:
                pass  # the loop was closed: nobody waits for this any more

        threading.Thread(target=work, name="amplifier-reader", daemon=True).start()
        try:
            result = await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._stop()
            while not ended.done():
                try:
                    await asyncio.wait([ended])
                except asyncio.CancelledError:
                    pass  # the one that is passed on below is enough
            raise
        if isinstance(result, _UnreadableError):
            raise result
        return result

    def _work(self) -> bytes:
        environ = {name: os.environ[name] for name in _PASSED if name in os.environ}
        with self._lock:
            if self._is_stopped:
                return b""
            command = [sys.executable, "-I", "-B", "-X", "utf8", str(_READER)]
            self._process = process = open_process(command, environment=environ, stdin=PIPE, stdout=PIPE)
        with process:
            try:
                written, _ = process.communicate(self._source, timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                raise _UnreadableError(f"reading it takes longer than {DEADLINE:g} s") from None
            finally:
                process.kill()
        if process.returncode:
            raise _UnreadableError(f"reading it failed ({process.returncode})")
        return written

    def _stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()
