"""`__on_session_ready__`: how the loader says that a module wants to be told."""

from __future__ import annotations

import sys
from typing import Any

from amplifier_core import ModuleLoader


async def test_mount_that_takes_no_attributes(install: Any) -> None:
    """A bound method as mount() cannot carry the mark; what load() gives does."""

    class Module:
        async def mount(self, coordinator: Any, config: Any) -> None: ...

    install(hooks_x=Module().mount)
    this = sys.modules[Module.__module__]
    this.on_session_ready = on_ready = AsyncReady().ready  # type: ignore[attr-defined]
    try:
        mount = await ModuleLoader().load("hooks-x")
    finally:
        del this.on_session_ready

    assert mount.__on_session_ready__ == ("hooks-x", on_ready)  # type: ignore[attr-defined]


class AsyncReady:
    """Have an async method."""

    async def ready(self, coordinator: Any) -> None:
        """Do nothing."""
