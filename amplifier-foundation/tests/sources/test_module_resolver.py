"""The kernel learns where prepared modules lie, and modules are found by their id in three places."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_core.loader import ModuleLoader
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.module_resolver import (
    ModuleFolderError,
    PreparedModules,
    find_module_folder,
    module_variable,
)


class _Coordinator:
    """The little of a coordinator that the loader asks for its resolver."""

    def __init__(self, resolver: PreparedModules) -> None:
        self._resolver = resolver

    def get(self, name: str) -> PreparedModules:
        assert name == "module-source-resolver"
        return self._resolver


async def test_the_kernels_loader_loads_from_the_prepared_folder(tmp_path: Path) -> None:
    """A prepared module is loaded from its folder, and an unknown one from what is installed."""
    package = tmp_path / "amplifier_module_tool_prepared_here"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__amplifier_module_type__ = 'tool'\nasync def mount(coordinator, config):\n    return None\n",
        encoding="utf-8",
    )
    loader = ModuleLoader(_Coordinator(PreparedModules({"tool-prepared-here": tmp_path})))
    try:
        assert callable(await loader.load("tool-prepared-here"))
        assert callable(await loader.load("context-simple"))
    finally:
        loader.cleanup()


async def test_an_unknown_module_is_the_kernels_own_error(tmp_path: Path) -> None:
    """The kernel is told in its own words that a module was not prepared, so that it can look elsewhere."""
    modules = PreparedModules({"tool-x": tmp_path})
    assert modules.get_module_source("tool-x") == str(tmp_path)
    assert modules.get_module_source("tool-y") is None
    assert modules.resolve("tool-x").resolve() == tmp_path
    with pytest.raises(SourceNotFoundError, match=r"tool-y.*git\+u"):
        modules.resolve("tool-y", source_hint="git+u")
    with pytest.raises(SourceNotFoundError, match=r"tool-y.*git\+u"):
        await modules.async_resolve("tool-y", source_hint="git+u")


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """A module deleted after the session was prepared is not found, instead of failing somewhere in an import."""
    with pytest.raises(SourceNotFoundError, match="is gone"):
        PreparedModules({"tool-x": tmp_path / "gone"}).resolve("tool-x").resolve()


async def test_a_module_that_was_not_prepared_can_be_refused(tmp_path: Path) -> None:
    """The check is asked about modules that were not prepared, and what it raises is what the loader gets."""

    def refuse(module_id: str) -> None:
        raise ImportError(f"{module_id} belongs to another session")

    modules = PreparedModules({"tool-x": tmp_path}, refuse)
    assert (await modules.async_resolve("tool-x")).resolve() == tmp_path
    with pytest.raises(ImportError, match="tool-y belongs to another session"):
        await modules.async_resolve("tool-y")


def test_the_variable_wins_then_the_project_then_the_home(tmp_path: Path) -> None:
    """A module is looked for where a variable says, in the project, in the home, and nowhere else."""
    project, home = tmp_path / "project", Home(tmp_path / "home")
    assert find_module_folder("tool-x", project, home, {}) is None
    own = home.path / "modules" / "tool-x"
    own.mkdir(parents=True)
    assert find_module_folder("tool-x", project, home, {}) == (own, "user")
    theirs = project / ".amplifier" / "modules" / "tool-x"
    theirs.mkdir(parents=True)
    assert find_module_folder("tool-x", project, home, {}) == (theirs, "project")
    environ = {"AMPLIFIER_MODULE_TOOL_X": str(tmp_path)}
    assert find_module_folder("tool-x", project, home, environ) == (tmp_path.resolve(), "environment")
    environ = {"AMPLIFIER_MODULE_TOOL_X": f"file://{tmp_path}"}
    assert find_module_folder("tool-x", project, home, environ) == (tmp_path.resolve(), "environment")


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    """What the user asked for by a variable is not silently replaced by something else."""
    for gone in (str(tmp_path / "gone"), "~no-such-user/gone"):
        environ = {module_variable("tool-x.y"): gone}
        with pytest.raises(ModuleFolderError, match=f"AMPLIFIER_MODULE_TOOL_X_Y={gone}"):
            find_module_folder("tool-x.y", tmp_path, Home(tmp_path), environ)


def test_the_users_modules_stay_theirs_in_the_home_folder(tmp_path: Path) -> None:
    """In a project that is the user's home folder, ~/.amplifier/modules is the user's and not a project's."""
    home = Home(tmp_path / ".amplifier")
    (home.path / "modules" / "tool-x").mkdir(parents=True)
    found = find_module_folder("tool-x", tmp_path, home, {})
    assert found == (home.path / "modules" / "tool-x", "user")


@pytest.mark.parametrize("module_id", ["../evil", "..", ".", "a/b", "", "/etc"])
def test_an_id_is_no_path(tmp_path: Path, module_id: str) -> None:
    """No id leads out of the folder of modules."""
    (tmp_path / ".amplifier" / "modules" / "a" / "b").mkdir(parents=True)
    (tmp_path / ".amplifier" / "evil").mkdir()
    assert find_module_folder(module_id, tmp_path, Home(tmp_path / "home"), {}) is None
