"""Find and compose the bundle that a command is about."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_foundation.bundles.bundle import BundleError
from amplifier_foundation.bundles.loader import is_path
from amplifier_foundation.bundles.registry import BundleRegistry
from amplifier_foundation.bundles.shipped import shipped_bundles
from amplifier_foundation.plan.prepare import Composition, Options, compose

Result = TypeVar("Result")


def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Run something to its end; a signal stops it, with every program it started, and ends this one."""
    received: list[int] = []

    async def run() -> Result:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if not received:
            raise
        sys.exit(exits.TERMINATED if received[0] == signal.SIGTERM else exits.INTERRUPTED)


def known_bundles(app: App) -> BundleRegistry:
    """Return what knows bundles by name, for looking them up; raises SettingsError."""
    return BundleRegistry(app.home, app.project, app.settings.get("bundle.added") or {}, shipped_bundles())


def reference_to(app: App, name: str) -> str:
    """Return a reference that means the bundle which lists call `name`, whatever characters that has."""
    try:
        if not is_path(name):
            return name
    except BundleError:  # a file may be called what no reference can be
        pass
    known = known_bundles(app).find(name) if "/" not in name else None
    return known.reference if known is not None else name


def options_for(bundle: str | None = None, **wishes: Any) -> Options:
    """Return what to prepare: the bundle of that name, or the one that runs here when none is named."""
    app = current_app()
    reference = reference_to(app, bundle) if bundle is not None else None
    return Options(app.home, app.project, bundle=reference, settings=app.settings, on_progress=app.inform, **wishes)


def compose_bundle(bundle: str | None = None) -> Composition:
    """Return a bundle with its includes and the settings; warnings about it are printed.

    Modules are not fetched. Raises what `amplifier_foundation.plan.prepare.compose` raises.
    """
    composition = finished(compose(options_for(bundle)))
    current_app().warn(composition.warnings, "note")
    return composition
