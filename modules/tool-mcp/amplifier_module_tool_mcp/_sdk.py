"""Bring the protocol's SDK in, without holding up the event loop or the end of the program."""

from __future__ import annotations

import asyncio
import sys
import threading
from importlib import import_module
from typing import Any, Final

from amplifier_module_tool_mcp._faults import ServerFault

#: In this order: a program that ends meanwhile waits for the one that is being imported, not for all of them.
_STEPS: Final = (
    "pydantic",
    "anyio",
    "httpx2",
    "jsonschema",
    "opentelemetry.trace",
    "mcp_types",
    "starlette.applications",
    "sse_starlette",
    "jwt",
    "mcp",
)


#: Thread switch interval in seconds during an import, instead of 5 ms: every line written to the log meanwhile would
#: wait that long for the interpreter.
_SLICE: Final = 0.0005


class ShortSlices:
    """Shorten the thread switch interval while at least one thread is inside, then restore it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(_SLICE, self._before))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._before)


class Loading:
    """Import the SDK in a separate thread, which stops early when every caller has been cancelled."""

    def __init__(self) -> None:
        self._waiting = 0
        self._slices = ShortSlices()

    async def loaded(self) -> Any:
        """Return the SDK; raises ServerFault when it cannot be imported."""
        known = sys.modules.get("mcp")
        if known is not None and not getattr(known.__spec__, "_initializing", False):
            return known
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting += 1
        thread = threading.Thread(target=self._import, args=(loop, done), name="mcp-import")
        thread.start()
        try:
            await done
        except ImportError as error:
            raise ServerFault("sdk_missing", f"the package 'mcp' cannot be imported: {error}") from error
        finally:
            self._waiting -= 1
        return sys.modules["mcp"]

    def _import(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        with self._slices:
            failure = self._step_by_step()
        try:
            loop.call_soon_threadsafe(_settle, done, failure)
        except RuntimeError:
            pass  # the loop is closed: no caller is left

    def _step_by_step(self) -> BaseException | None:
        """Import package after package while a caller waits; return the exception if one failed."""
        failure: BaseException | None = None
        for name in _STEPS:
            if not self._waiting:
                return None
            try:
                import_module(name)
            except ImportError as error:
                if name == "mcp":
                    failure = error
            except Exception as error:
                return ImportError(f"{name}: {error}")
        return failure


def _settle(done: asyncio.Future[None], failure: BaseException | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)


#: One for the process: the SDK is the same for all sessions.
SDK: Final = Loading()
