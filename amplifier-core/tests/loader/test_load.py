"""Loading modules by id: entry points, packages, the marks of on_session_ready, and reasons of failure."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, ModuleLoader, ModuleValidationError
from amplifier_core._discovery import find_entry_point, module_entry_points
from amplifier_core.loader import module_failure_reason
from amplifier_core.module_sources import ModuleLoadError
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFound

MOUNT = "async def mount(coordinator, config):\n    return ('package', config)"


async def entry_mount(coordinator: Any, config: Any) -> Any:
    """Mount nothing, and say so."""
    return "entry point", config


async def test_fresh_closure_per_call(make_module: Any, install: Any) -> None:
    """Each load() binds its own config; the module is looked up once."""
    points = install(tool_x=entry_mount)
    loader = ModuleLoader()
    config = {"n": 1}

    first, second, third = [await loader.load("tool-x", given) for given in (config, {"n": 2}, None)]

    coordinator = ModuleCoordinator()
    assert (await second(coordinator))[1] == {"n": 2}
    assert (await first(coordinator))[1] is config
    assert (await third(coordinator))[1] == {}
    assert first is not second
    assert points["tool-x"].loads == 1


@pytest.mark.parametrize("module_id", ["tool.x", "tool x", "", "tool-ü"])
async def test_ids_that_name_no_package(install: Any, module_id: str) -> None:
    """An id that cannot be a package's name is simply not found."""
    install()

    with pytest.raises(ValueError, match="not found via entry points or filesystem"):
        await ModuleLoader().load(module_id)


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("import no_such_dependency", ModuleNotFoundError, "no_such_dependency"),
        ("raise OSError('at import')", OSError, "at import"),
        ("def f(:", SyntaxError, "invalid syntax"),
    ],
)
async def test_faults_inside_a_module_are_raised_as_they_are(
    make_module: Any, install: Any, source: str, error: type[Exception], text: str
) -> None:
    """A module that is there but broken is not reported as missing: its own error comes through."""
    install()
    make_module("tool-broken", source)

    with pytest.raises(error, match=text):
        await ModuleLoader().load("tool-broken")


def test_scan_is_remembered_until_the_path_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The scan is made once while sys.path stays; a new entry, or a distribution asked for again, is seen."""
    first = module_entry_points()
    assert module_entry_points() is first
    info = tmp_path / "late-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert "tool-late" not in module_entry_points()
    (info / "entry_points.txt").write_text("[amplifier.modules]\ntool-late = late:mount\n")
    assert "tool-late" in module_entry_points(rescan=True)


def test_the_distribution_of_a_module_counts_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The entry point of the distribution that is named after a module is found without reading any other."""
    for name, target in (("another", "another:mount"), ("amplifier-module-tool-late", "late:mount")):
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[amplifier.modules]\ntool-late = {target}\ntool-{name} = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = find_entry_point("tool-late")
    assert found is not None
    assert found.value == "late:mount"
    assert find_entry_point("tool-late") is found
    other = find_entry_point("tool-another")
    assert other is not None
    assert other.value == "another:mount"
    assert find_entry_point("tool-missing") is None


async def test_installed_since_the_scan(make_module: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that was installed after the scan is found by the next load()."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    module_entry_points()
    info = site / "late-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amplifier.modules]\ntool-late = amplifier_module_elsewhere:mount\n")
    make_module("elsewhere", MOUNT)

    mount = await ModuleLoader().load("tool-late")

    assert (await mount(ModuleCoordinator()))[0] == "package"


def test_cleanup_takes_back_what_it_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """cleanup() removes the sys.path entries this loader added, ignores those that are gone, and forgets them."""
    monkeypatch.setattr(sys, "path", ["b", "keep", "a"])
    loader = ModuleLoader()
    loader._added_paths[:] = ["a", "gone", "b"]

    loader.cleanup()
    sys.path.append("a")
    loader.cleanup()

    assert sys.path == ["keep", "a"]


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


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test leave anything on sys.path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SourceNotFound("x"), "missing_source"),
        (ModuleValidationError("x"), "validation_failed"),
        (ModuleValidationError("x", reason_code="invalid_module_metadata"), "invalid_module_metadata"),
        (ModuleValidationError("x", reason_code="made up"), "unknown"),
        (ModuleLoadError("x"), "unknown"),
        (ModuleNotFoundError("x"), "unknown"),
        (ValueError("x"), "unknown"),
        (KeyboardInterrupt(), "unknown"),
    ],
)
def test_reason_of_an_exception(error: BaseException, reason: str) -> None:
    """Own errors carry their code, a source's not-found is missing_source, all others are unknown."""
    assert module_failure_reason(error) == reason
