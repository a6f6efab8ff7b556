"""`__on_session_ready__`: how the loader says that a module wants to be told."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from amplifier_core import ModuleLoader

MOUNT = "async def mount(coordinator, config): ...\n"
READY = "async def on_session_ready(coordinator): ...\n"


async def test_every_closure_and_the_mount_itself_are_marked(make_module: Any) -> None:
    """An async on_session_ready marks the raw mount() and each function that load() gives with (id, function)."""
    make_module("hooks-x", MOUNT + READY)
    loader = ModuleLoader()

    first, second = await loader.load("hooks-x"), await loader.load("hooks-x")

    module = sys.modules["amplifier_module_hooks_x"]
    expected = ("hooks-x", module.on_session_ready)
    assert first.__on_session_ready__ == second.__on_session_ready__ == expected  # type: ignore[attr-defined]
    assert module.mount.__on_session_ready__ == expected
    assert loader.get_on_session_ready_queue() == []


async def test_found_in_the_module_of_an_entry_point(make_module: Any, install: Any) -> None:
    """For an entry point it is looked up where its function was defined."""
    package = make_module("hooks-x", "")
    (package / "inner.py").write_text(MOUNT + READY, encoding="utf-8")
    import amplifier_module_hooks_x.inner as inner  # type: ignore[import-not-found]

    install(hooks_x=inner.mount)

    mount = await ModuleLoader().load("hooks-x")

    assert mount.__on_session_ready__ == ("hooks-x", inner.on_session_ready)  # type: ignore[attr-defined]


async def test_found_through_a_resolver(make_module: Any, resolving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a resolved package it is looked up on that package."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = make_module("hooks-x", MOUNT + READY)
    coordinator, _ = resolving(package)

    mount = await ModuleLoader().load("hooks-x", coordinator=coordinator)

    module = sys.modules["amplifier_module_hooks_x"]
    assert mount.__on_session_ready__ == ("hooks-x", module.on_session_ready)  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["", "on_session_ready = None\n"])
async def test_no_mark_without_one(make_module: Any, source: str) -> None:
    """A module without on_session_ready is not marked, and nothing is logged about it."""
    make_module("hooks-x", MOUNT + source)

    mount = await ModuleLoader().load("hooks-x")

    assert not hasattr(mount, "__on_session_ready__")


async def test_sync_one_is_not_marked(make_module: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A sync one is not marked; the warning has exactly this text, once per loader."""
    make_module("hooks-x", MOUNT + "def on_session_ready(coordinator): ...\n")
    loader = ModuleLoader()

    mount = await loader.load("hooks-x")
    await loader.load("hooks-x")

    assert not hasattr(mount, "__on_session_ready__")
    warning = "Module 'hooks-x' defines on_session_ready() as sync — must be async. Skipping."
    assert caplog.messages.count(warning) == 1


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
