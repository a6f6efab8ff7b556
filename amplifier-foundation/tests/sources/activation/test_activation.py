"""Modules get what they need, from their own folders, and the program's environment stays as it is."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activated, Activator, ModuleActivationError, ModuleFolder, enter

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]
Command = tuple[str, ...]


def _installed(activated: Activated, package: str) -> list[Path]:
    return [folder for folder in activated.site_folders if (folder / package).is_dir()]


@pytest.fixture
def no_process(script: Callable[[str], Command], tmp_path: Path) -> tuple[Command, Path]:
    """Return an installer that leaves a trace when it is started, and the trace."""
    trace = tmp_path / "started"
    return script(f"pathlib.Path({str(trace)!r}).touch()\nsys.exit(1)"), trace


async def test_a_missing_dependency_is_installed_beside_the_program(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule, home: Home
) -> None:
    """What a module needs goes, with what that needs, into a folder of its own, and can be imported from there."""
    add_wheel("leaf-of-tests", "1.0", ["root-of-tests>=2"])
    add_wheel("root-of-tests", "2.5")
    module = make_module("tool-leafy", ["leaf-of-tests>=1"])
    activated = await activator.activate([module])
    assert activated.paths == {"tool-leafy": module.path}
    [site] = _installed(activated, "leaf_of_tests")
    assert site.parent == home.cache / "installed"
    assert site.name.startswith("tool-leafy-")
    assert len(site.name.rpartition("-")[2]) == 16
    enter(activated)
    assert importlib.import_module("leaf_of_tests").VERSION == "1.0"
    assert importlib.import_module("root_of_tests").VERSION == "2.5"
    assert sys.path.index(str(site)) > sys.path.index(os.path.dirname(os.__file__))


async def test_a_module_is_known_by_name_version_and_entry_point(activator: Activator, make_module: MakeModule) -> None:
    """A module that runs from its folder is known to importlib.metadata as if it were installed."""
    activated = await activator.activate([make_module("tool-known")])
    enter(activated)
    assert importlib.metadata.version("amplifier-module-tool-known") == "1.2.3"
    [point] = [
        point for point in importlib.metadata.entry_points(group="amplifier.modules") if point.name == "tool-known"
    ]
    assert callable(point.load())


async def test_the_kernel_of_the_product_is_never_replaced(
    home: Home, environ: dict[str, str], make_module: MakeModule, no_process: tuple[Command, Path]
) -> None:
    """A module that asks for any kernel this program satisfies, by version or by address, starts no process."""
    installer, trace = no_process
    wishes = ["amplifier-core>=1.4", "amplifier_core @ git+https://example.invalid/core@main", "PyYAML"]
    wishes += ["never-there; python_version < '3'"]
    activated = await Activator(home, environ=environ, command=installer).activate([make_module("tool-old", wishes)])
    assert not trace.exists()
    assert list(activated.paths) == ["tool-old"]


async def test_a_conflict_with_the_environment_names_both_versions(
    home: Home, environ: dict[str, str], make_module: MakeModule, no_process: tuple[Command, Path]
) -> None:
    """A module that needs another version of what the program has fails before anything is started."""
    installer, trace = no_process
    have = importlib.metadata.version("amplifier-core")
    with pytest.raises(ModuleActivationError) as caught:
        await Activator(home, environ=environ, command=installer).activate(
            [make_module("tool-past", ["amplifier-core<1"])]
        )
    assert caught.value.failures == [f"tool-past: needs amplifier-core<1, but amplifier-core {have} is installed"]
    assert not trace.exists()


async def test_a_part_of_the_product_that_is_missing_is_not_installed(
    home: Home, environ: dict[str, str], make_module: MakeModule, add_wheel: AddWheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product's own distributions are never taken from an index, not even when they are not there."""
    add_wheel("amplifier", "9.9")
    real = importlib.metadata.distributions

    def without(**options: Any) -> object:
        return (found for found in real(**options) if found.metadata["Name"] != "amplifier")

    monkeypatch.setattr(importlib.metadata, "distributions", without)
    with pytest.raises(ModuleActivationError, match="which is part of the program and not installed"):
        await Activator(home, environ=environ).activate([make_module("tool-meta", ["amplifier"])])


async def test_a_dependency_that_conflicts_with_the_environment_names_both(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule, home: Home
) -> None:
    """A dependency of a dependency that the program has in another version is named, and nothing of it is used."""
    add_wheel("leaf-of-tests", "1.0", ["amplifier-core>=99"])
    have = importlib.metadata.version("amplifier-core")
    with pytest.raises(ModuleActivationError) as caught:
        await activator.activate([make_module("tool-deep", ["leaf-of-tests"])])
    assert f"leaf-of-tests 1.0 needs amplifier-core>=99, but amplifier-core {have} is installed" in str(caught.value)
    assert list((home.cache / "installed").glob("*/leaf*")) == []


async def test_modules_with_contradicting_requirements_are_named(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """Two modules that require different versions of one distribution cannot be loaded together."""
    add_wheel("leaf-of-tests", "1.0")
    add_wheel("leaf-of-tests", "2.0")
    modules = [make_module("tool-a", ["leaf-of-tests<2"]), make_module("tool-b", ["leaf-of-tests>=2"])]
    with pytest.raises(ModuleActivationError) as caught:
        await activator.activate(modules)
    [failure] = caught.value.failures
    assert failure.startswith("tool-a, tool-b: their requirements contradict each other: uv failed")
    assert "leaf-of-tests<2" in failure
    assert "leaf-of-tests>=2" in failure


async def test_two_modules_that_can_agree_share_a_version(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """Modules that would each take another version get one that does for both, wherever they stand in the list."""
    for version in ("1.0", "1.5", "2.0"):
        add_wheel("leaf-of-tests", version)
    add_wheel("other-of-tests", "1.0", ["leaf-of-tests>=1.5"])
    modules = [
        make_module("tool-new", ["leaf-of-tests"]),
        make_module("tool-old", ["leaf-of-tests<2"]),
        make_module("tool-other", ["other-of-tests"]),
    ]
    activated = await activator.activate(modules)
    enter(activated)
    assert importlib.metadata.version("leaf-of-tests") == "1.5"
    assert importlib.metadata.version("amplifier-module-tool-new") == "1.2.3"


async def test_every_failure_is_named(activator: Activator, make_module: MakeModule, tmp_path: Path) -> None:
    """All modules that fail are named in one error, each with its reason."""
    broken = make_module("tool-broken")
    (broken.path / "pyproject.toml").write_text("[project\n", encoding="utf-8")
    modules = [
        make_module("tool-absent", ["nowhere-of-tests"]),
        broken,
        make_module("tool-past", ["amplifier-core<1"]),
        ModuleFolder("tool-gone", tmp_path / "gone"),
    ]
    with pytest.raises(ModuleActivationError) as caught:
        await activator.activate(modules)
    assert sorted(failure.partition(":")[0] for failure in caught.value.failures) == [
        "tool-absent",
        "tool-broken",
        "tool-gone",
        "tool-past",
    ]
    assert "nowhere-of-tests" in str(caught.value)
    assert f"{broken.path / 'pyproject.toml'}:1: malformed TOML" in str(caught.value)


async def test_what_can_be_had_is_had_when_modules_may_be_missing(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule, tmp_path: Path
) -> None:
    """Allowed to go on without modules that fail, the others are ready, and every failure is a warning."""
    add_wheel("leaf-of-tests", "1.0")
    modules = [
        make_module("tool-absent", ["nowhere-of-tests"]),
        make_module("tool-leafy", ["leaf-of-tests"]),
        ModuleFolder("tool-gone", tmp_path / "gone"),
    ]
    activated = await activator.activate(modules, [tmp_path / "no-bundle"], allow_missing=True)
    assert activated.paths == {"tool-leafy": modules[1].path}
    assert activated.package_paths == []
    assert len(_installed(activated, "leaf_of_tests")) == 1
    failed = sorted(warning.partition(":")[0] for warning in activated.warnings)
    assert failed == ["no-bundle", "tool-absent", "tool-gone"]


async def test_one_id_from_two_folders_is_a_failure(activator: Activator, make_module: MakeModule) -> None:
    """A module that two sources are named for cannot be loaded from both."""
    one, two = make_module("tool-one"), make_module("tool-two")
    with pytest.raises(ModuleActivationError, match="tool-one: named with two sources"):
        await activator.activate([one, ModuleFolder("tool-one", two.path)])


async def test_what_is_installed_is_used_again_without_a_process(
    activator: Activator,
    home: Home,
    environ: dict[str, str],
    add_wheel: AddWheel,
    make_module: MakeModule,
    no_process: tuple[Command, Path],
) -> None:
    """The second activation of a module starts nothing, however much the first one installed."""
    add_wheel("leaf-of-tests", "1.0")
    module = make_module("tool-leafy", ["leaf-of-tests"])
    first = await activator.activate([module])
    installer, trace = no_process
    second = await Activator(home, environ=environ, command=installer, offline=True).activate([module])
    assert second.site_folders == first.site_folders
    assert not trace.exists()


async def test_module_vanishes_after_venv_rebuild(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule, tmp_path: Path
) -> None:
    """An interpreter that was made anew at the same place gets its own installation, not the old one's."""
    add_wheel("leaf-of-tests", "1.0")
    module = make_module("tool-leafy", ["leaf-of-tests"])
    python = tmp_path / "python"
    folders = []
    for moment in (1_000, 2_000):
        python.unlink(missing_ok=True)
        python.symlink_to(sys.executable)
        os.utime(python, (moment, moment), follow_symlinks=False)
        activated = await Activator(home, python=str(python), environ=environ).activate([module])
        folders += _installed(activated, "leaf_of_tests")
    assert len(set(folders)) == 2


async def test_a_changed_requirement_is_installed_anew(
    activator: Activator, add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """An edited pyproject.toml takes effect at the next activation."""
    add_wheel("leaf-of-tests", "1.0")
    add_wheel("leaf-of-tests", "2.0")
    module = make_module("tool-leafy", ["leaf-of-tests<2"])
    first = await activator.activate([module])
    manifest = module.path / "pyproject.toml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("<2", ">=2"), encoding="utf-8")
    second = await activator.activate([module])
    assert (first.site_folders[-1] / "leaf_of_tests-1.0.dist-info").is_dir()
    assert (second.site_folders[-1] / "leaf_of_tests-2.0.dist-info").is_dir()


async def test_a_module_may_need_another_module_of_the_bundle(
    activator: Activator, make_module: MakeModule, home: Home
) -> None:
    """What another module of the same activation is, is not looked for in an index, and can be imported."""
    modules = [make_module("tool-user", ["amplifier-module-tool-used>=1"]), make_module("tool-used")]
    enter(await activator.activate(modules))
    assert importlib.import_module("amplifier_module_tool_used").mount is not None


async def test_offline_uses_no_network_and_says_what_to_do(
    home: Home, environ: dict[str, str], make_module: MakeModule
) -> None:
    """Without network a module whose dependency is not at hand fails with the way out."""
    online = {name: value for name, value in environ.items() if not name.startswith("UV_")}
    activator = Activator(home, environ=online, offline=True)
    with pytest.raises(ModuleActivationError, match="run once without --offline"):
        await activator.activate([make_module("tool-leafy", ["nowhere-of-tests"])])


async def test_a_cancelled_activation_leaves_nothing(
    home: Home,
    environ: dict[str, str],
    make_module: MakeModule,
    script: Callable[[str], Command],
    tmp_path: Path,
) -> None:
    """Cancelling kills the installer and removes what it had written."""
    pids = tmp_path / "pid"
    installer = script(
        f"install('leaf-of-tests')\npathlib.Path({str(pids)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"
    )
    activator = Activator(home, environ=environ, command=installer)
    running = asyncio.ensure_future(activator.activate([make_module("tool-slow", ["leaf-of-tests"])]))
    while not pids.exists() or not pids.read_text(encoding="utf-8"):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text(encoding="utf-8")), 0)
    assert list((home.cache / "installed").glob("**/leaf*")) == []
