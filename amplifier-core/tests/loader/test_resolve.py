"""load() through a resolver: where modules come from is the app's decision."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader, ModuleValidationError
from amplifier_core.loader import module_failure_reason
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFound

MOUNT = "async def mount(coordinator, config):\n    return ('here', config)"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test leave anything on sys.path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


async def test_resolver_of_the_given_coordinator(make_module: Any, resolving: Any) -> None:
    """The resolver is asked with the hint under both names; what it finds is loaded."""
    package = make_module("tool-x", MOUNT)
    coordinator, resolver = resolving(package.parent)
    hint = {"git": "somewhere"}

    mount = await ModuleLoader().load("tool-x", {"n": 1}, source_hint=hint, coordinator=coordinator)

    assert await mount(coordinator) == ("here", {"n": 1})
    assert resolver.calls == [("tool-x", hint, hint)]


async def test_own_coordinator_comes_first(make_module: Any, resolving: Any) -> None:
    """The resolver of the loader's own coordinator is preferred to that of the one given."""
    package = make_module("tool-x", MOUNT)
    own, mine = resolving(package)
    other, theirs = resolving(package)

    await ModuleLoader(coordinator=own).load("tool-x", coordinator=other)

    assert (len(mine.calls), len(theirs.calls)) == (1, 0)


async def test_coordinator_without_that_mount_point(make_module: Any) -> None:
    """A coordinator that does not know the mount point has no resolver, and that is no error."""
    make_module("tool-x", MOUNT)
    coordinator = ModuleCoordinator()
    del coordinator.mount_points["module-source-resolver"]

    mount = await ModuleLoader(coordinator).load("tool-x")

    assert (await mount(coordinator))[0] == "here"


async def test_async_resolver(make_module: Any, caplog: pytest.LogCaptureFixture) -> None:
    """async_resolve() is preferred to resolve(), a source may resolve asynchronously, and the log names the source."""
    package = make_module("tool-x", MOUNT)

    class Source:
        async def resolve(self) -> str:
            return str(package)

        def __str__(self) -> str:
            return "git+somewhere"

    class Resolver:
        def resolve(self, *arguments: Any, **keywords: Any) -> Any:
            raise AssertionError("async_resolve() is there")

        async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Source:
            return Source()

    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", Resolver())

    with caplog.at_level(logging.INFO, "amplifier_core"):
        mount = await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert (await mount(coordinator))[0] == "here"
    assert "[module:mount] tool-x from git+somewhere" in caplog.messages


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


async def test_path_is_put_before_validation(resolving: Any, tmp_path: Path) -> None:
    """Also a module that turns out invalid leaves its path for cleanup() to take back."""
    (tmp_path / "empty").mkdir()
    coordinator, _ = resolving(tmp_path / "empty")
    loader = ModuleLoader()

    with pytest.raises(ModuleValidationError):
        await loader.load("tool-x", coordinator=coordinator)

    assert sys.path[0] == str(tmp_path / "empty")
    loader.cleanup()
    assert str(tmp_path / "empty") not in sys.path


async def test_path_that_was_there_is_not_taken_away(make_module: Any, resolving: Any) -> None:
    """A path that somebody else put on sys.path stays after cleanup()."""
    package = make_module("tool-x", MOUNT)
    coordinator, _ = resolving(package.parent)
    loader = ModuleLoader()

    await loader.load("tool-x", coordinator=coordinator)
    loader.cleanup()

    assert str(package.parent) in sys.path


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


async def test_same_place_by_another_name(make_module: Any, resolving: Any, tmp_path: Path) -> None:
    """A link to the folder, or a relative path to it, is no other path."""
    package = make_module("tool-x", MOUNT)
    (tmp_path / "link").symlink_to(package)
    coordinator, resolver = resolving(package)
    loader = ModuleLoader()
    await loader.load("tool-x", coordinator=coordinator)
    resolver.where = tmp_path / "link"

    mount = await loader.load("tool-x", coordinator=coordinator)

    assert (await mount(coordinator))[0] == "here"


async def test_resolved_package_beats_an_installed_one(make_module: Any, resolving: Any, install: Any) -> None:
    """An entry point of the same id cannot take the place of what the resolver found."""

    async def installed(coordinator: Any, config: Any) -> str:
        return "installed"

    package = make_module("tool-x", MOUNT)
    install(tool_x=installed)
    coordinator, _ = resolving(package)

    mount = await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert (await mount(coordinator))[0] == "here"


async def test_package_of_another_name(make_module: Any, resolving: Any) -> None:
    """A folder whose package has another amplifier_module_ name works."""
    package = make_module("something-else", MOUNT)
    coordinator, _ = resolving(package.parent)

    mount = await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert (await mount(coordinator))[0] == "here"


async def test_unknown_to_the_resolver_but_installed(make_module: Any, resolving: Any) -> None:
    """A module the resolver does not know is looked for among what is installed."""
    make_module("tool-x", MOUNT)
    coordinator, _ = resolving(SourceNotFound("not in any bundle"))

    mount = await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert (await mount(coordinator))[0] == "here"


async def test_unknown_to_everyone(resolving: Any, caplog: pytest.LogCaptureFixture) -> None:
    """If it is not installed either, the resolver's own error is raised."""
    error = SourceNotFound("not in any bundle")
    coordinator, _ = resolving(error)

    with pytest.raises(SourceNotFound) as caught:
        await ModuleLoader().load("tool-x", coordinator=coordinator)

    assert caught.value is error
    assert module_failure_reason(error) == "missing_source"
    assert "Failed to load module 'tool-x': not in any bundle" in caplog.messages


async def test_other_errors_of_a_resolver(make_module: Any, resolving: Any) -> None:
    """Anything else a resolver raises is raised, though a package of that name exists."""
    make_module("tool-x", MOUNT)
    coordinator, _ = resolving(ConnectionError("no network"))

    with pytest.raises(ConnectionError, match="no network"):
        await ModuleLoader().load("tool-x", coordinator=coordinator)


async def test_direct_load_is_not_resolved_again(make_module: Any, resolving: Any) -> None:
    """A module that was loaded without a resolver is kept when one is mounted later."""
    make_module("tool-x", MOUNT)
    loader = ModuleLoader()
    await loader.load("tool-x")
    coordinator, resolver = resolving("nowhere")

    await loader.load("tool-x", coordinator=coordinator)

    assert resolver.calls == []


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
