"""load() through a resolver: where modules come from is the app's decision."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader, ModuleValidationError
from amplifier_core.loader import module_failure_reason

MOUNT = "async def mount(coordinator, config):\n    return ('here', config)"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test leave anything on sys.path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


async def test_coordinator_without_that_mount_point(make_module: Any) -> None:
    """A coordinator that does not know the mount point has no resolver, and that is no error."""
    make_module("tool-x", MOUNT)
    coordinator = ModuleCoordinator()
    del coordinator.mount_points["module-source-resolver"]

    mount = await ModuleLoader(coordinator).load("tool-x")

    assert (await mount(coordinator))[0] == "here"


async def test_path_is_put_first_and_taken_back(make_module: Any, resolving: Any) -> None:
    """The resolved path is first on sys.path, once, until the loader's cleanup."""
    package = make_module("tool-x", MOUNT)
    coordinator, _ = resolving(package)
    loader = ModuleLoader()

    await loader.load("tool-x", coordinator=coordinator)
    await loader.load("tool-x", coordinator=coordinator)
    assert sys.path[0] == str(package)
    assert sys.path.count(str(package)) == 1

    loader.cleanup()
    assert str(package) not in sys.path


async def test_another_path_is_refused(make_module: Any, resolving: Any, tmp_path: Path) -> None:
    """A module that came from one path is not loaded from another later."""
    package = make_module("tool-x", MOUNT)
    coordinator, resolver = resolving(package)
    loader = ModuleLoader()
    await loader.load("tool-x", coordinator=coordinator)
    resolver.where = tmp_path / "elsewhere"

    with pytest.raises(ImportError) as caught:
        await loader.load("tool-x", coordinator=coordinator)

    assert str(caught.value) == (
        f"Refusing to load 'tool-x' from {tmp_path / 'elsewhere'}: it is already loaded from {package}"
    )


SYNC_READY = (
    "on_session_ready_async: on_session_ready() must be async: found sync function. "
    "Use 'async def on_session_ready(coordinator) -> None:'"
)


@pytest.mark.parametrize(
    ("source", "passed", "error"),
    [
        ("raise OSError('at import')", "0/1", "module_importable: Error loading module: at import"),
        ("import no_such", "0/1", "module_importable: Failed to import module: No module named 'no_such'"),
        ("x = 1", "1/2", "mount_exists: No mount() function found in module"),
        ("mount = 5", "1/2", "mount_exists: mount is not callable"),
        ("def mount(c, config): ...", "2/3", "mount_signature: mount() should be async (async def mount(...))"),
        (MOUNT + "\ndef on_session_ready(coordinator): ...", "3/4", SYNC_READY),
    ],
)
async def test_structure_is_checked(make_module: Any, resolving: Any, source: str, passed: str, error: str) -> None:
    """What a resolver found is checked when it is loaded, and the error lists what failed."""
    package = make_module("tool-x", source)
    coordinator, _ = resolving(package)

    with pytest.raises(ModuleValidationError) as caught:
        await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert str(caught.value) == (
        f"Module 'tool-x' failed validation: FAILED: {passed} checks passed (1 errors, 0 warnings). Errors: {error}"
    )


async def test_without_a_validator(make_module: Any, resolving: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A kind without a validator is loaded with a warning, but not without a mount()."""
    good = make_module("resolver-x", "__amplifier_module_type__ = 'resolver'\n" + MOUNT)
    bad = make_module("resolver-y", "__amplifier_module_type__ = 'resolver'\n")
    coordinator, _ = resolving(good)

    mount = await ModuleLoader().load("resolver-x", coordinator=coordinator)
    assert (await mount(coordinator))[0] == "here"
    assert any(record.levelno == logging.WARNING and "'resolver'" in record.message for record in caplog.records)

    coordinator, _ = resolving(bad)
    with pytest.raises(ValueError, match=r"^Module 'resolver-y' found at .* but failed to load") as caught:
        await ModuleLoader().load("resolver-y", coordinator=coordinator)
    assert module_failure_reason(caught.value) == "invalid_entry_point"
