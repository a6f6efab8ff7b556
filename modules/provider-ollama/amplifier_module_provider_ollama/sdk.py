"""Import the SDK, which makes a client for everybody while it is imported, with the proxies of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from amplifier_kit.llm import import_in_thread

_NAMES: Final = ("NO_PROXY", "no_proxy")


async def imported_sdk() -> Any:
    """Return the SDK; raises ConfigurationError when it is not installed.

    A proxy that the SDK cannot use for its own client is no reason to do without it: ours has a way of its own.
    """
    try:
        return await import_in_thread("ollama")
    except (ImportError, ValueError):
        # Not in a thread: nobody starts a process with this environment meanwhile. Nearly all of it is imported by now.
        with _no_proxies():
            return import_module("ollama")


@contextmanager
def _no_proxies() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _NAMES}
    os.environ.update(dict.fromkeys(_NAMES, "*"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
