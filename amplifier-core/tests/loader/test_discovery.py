"""discover() and what modules are called: listing without loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleInfo, ModuleLoader
from amplifier_core.loader import TYPE_TO_MOUNT_POINT


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, install: Any) -> None:
    """Start without installed modules and without $AMPLIFIER_MODULES."""
    monkeypatch.delenv("AMPLIFIER_MODULES", raising=False)
    install()


def folder(root: Path, name: str, source: str | None = None) -> Path:
    """Make a module folder, with a package if there is source for it."""
    made = root / name
    made.mkdir(parents=True)
    if source is not None:
        package = made / name.replace("-", "_")
        package.mkdir()
        (package / "__init__.py").write_text(source, encoding="utf-8")
    return made


async def test_entry_points_come_first(install: Any, tmp_path: Path) -> None:
    """Installed modules are listed first, then those in the search paths; nothing is loaded."""
    points = install(tool_web_search=None, loop_basic=None)
    folder(tmp_path, "amplifier-module-provider-x", "raise AssertionError('listing must not run modules')")

    found = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert [info.id for info in found] == ["tool-web-search", "loop-basic", "provider-x"]
    assert found[0] == ModuleInfo(
        id="tool-web-search",
        name="Tool Web Search",
        version="1.0.0",
        type="tool",
        mount_point="tools",
        description="Module: tool-web-search",
    )
    assert points["tool-web-search"].loads == 0


@pytest.mark.parametrize(
    ("module_id", "kind"),
    [
        ("loop-basic", "orchestrator"),
        ("my-orchestrator", "orchestrator"),
        ("ORCHESTRATION", "orchestrator"),
        ("provider-loop", "orchestrator"),
        ("provider-tool", "provider"),
        ("tool-hook", "tool"),
        ("hooks-context", "hook"),
        ("context-simple", "context"),
        ("something", "tool"),
    ],
)
async def test_kinds_by_name(tmp_path: Path, module_id: str, kind: str) -> None:
    """The first keyword found in the lower-cased id decides; a tool when there is none."""
    folder(tmp_path, f"amplifier-module-{module_id}")

    [info] = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert (info.id, info.type, info.mount_point) == (module_id, kind, TYPE_TO_MOUNT_POINT[kind])


async def test_declared_kind(tmp_path: Path) -> None:
    """A folder's package says its kind itself, if it does."""
    folder(tmp_path, "amplifier-module-a", "__amplifier_module_type__ = 'hook'")
    folder(tmp_path, "amplifier-module-b", "__amplifier_module_type__: str = 'context'")
    folder(tmp_path, "amplifier-module-c", "\ufeff__amplifier_module_type__ = 'resolver'")
    folder(tmp_path, "amplifier-module-hook-d", "__amplifier_module_type__ = computed()")

    found = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert [info.type for info in found] == ["hook", "context", "resolver", "hook"]


async def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$AMPLIFIER_MODULES, separated by colons, is used when no search paths were given, and only then."""
    folder(tmp_path / "one", "amplifier-module-tool-a")
    folder(tmp_path / "two", "amplifier-module-tool-b")
    folder(tmp_path / "three", "amplifier-module-tool-c")
    monkeypatch.setenv("AMPLIFIER_MODULES", f"{tmp_path / 'one'}::{tmp_path / 'two'}")

    assert [info.id for info in await ModuleLoader().discover()] == ["tool-a", "tool-b"]
    assert [info.id for info in await ModuleLoader(search_paths=[tmp_path / "three"]).discover()] == ["tool-c"]
    assert [info.id for info in await ModuleLoader(search_paths=[]).discover()] == ["tool-a", "tool-b"]


async def test_missing_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A search path that does not exist is a warning, and the others are still searched."""
    folder(tmp_path, "amplifier-module-tool-a")

    found = await ModuleLoader(search_paths=[tmp_path / "nowhere", tmp_path]).discover()

    assert [info.id for info in found] == ["tool-a"]
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert str(tmp_path / "nowhere") in record.message


async def test_only_module_folders(tmp_path: Path) -> None:
    """Files and folders of other names are no modules."""
    folder(tmp_path, "amplifier-module-tool-a")
    folder(tmp_path, "something-else")
    (tmp_path / "amplifier-module-file").touch()

    assert [info.id for info in await ModuleLoader(search_paths=[tmp_path]).discover()] == ["tool-a"]


async def test_broken_module_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A module that cannot be read is logged with its folder and skipped."""
    bad = folder(tmp_path, "amplifier-module-tool-bad", "def (:")
    folder(tmp_path, "amplifier-module-tool-good", "")

    found = await ModuleLoader(search_paths=[tmp_path]).discover()

    assert [info.id for info in found] == ["tool-good"]
    assert any(record.levelname == "ERROR" and str(bad) in record.message for record in caplog.records)


async def test_search_paths_are_not_for_load(tmp_path: Path) -> None:
    """What discover() lists in a search path is not thereby loadable."""
    folder(tmp_path, "amplifier-module-tool-only-listed", "async def mount(coordinator, config): ...")

    with pytest.raises(ValueError, match="not found via entry points or filesystem"):
        await ModuleLoader(search_paths=[tmp_path]).load("tool-only-listed")


def test_package_folders(tmp_path: Path) -> None:
    """A package is the path itself, else that of the module's name, else any amplifier_module_ package, else none."""
    find = ModuleLoader()._find_package_dir
    assert find("tool-x", tmp_path / "nowhere") is None
    assert find("tool-x", tmp_path) is None

    (tmp_path / "amplifier_module_empty").mkdir()
    assert find("tool-x", tmp_path) is None

    for name in ("amplifier_module_other", "amplifier_module_tool_x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        assert find("tool-x", tmp_path) == tmp_path / name

    (tmp_path / "__init__.py").touch()
    assert find("tool-x", tmp_path) == tmp_path
