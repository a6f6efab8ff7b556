"""What the program has, what that leaves open, and what an earlier activation of the same process decides."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.activation import Activator, ModuleActivationError, ModuleFolder, enter
from amplifier_foundation.sources.module_project import ModuleProject
from amplifier_foundation.sources.requirements import PRODUCT, Environment, installed_in

AddWheel = Callable[..., None]
MakeModule = Callable[..., ModuleFolder]
AddInstalled = Callable[..., Path]


@pytest.fixture
def add_installed(tmp_path: Path) -> AddInstalled:
    """Return a function that puts a distribution into a folder as if it were installed."""

    def add(folder: str, name: str, version: str, *requires: str) -> Path:
        info = tmp_path / folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {wish}" for wish in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / folder

    return add


def _wishes(*texts: str) -> list[Requirement]:
    return [Requirement(text) for text in texts]


def test_names_are_the_same_however_they_are_spelled(add_installed: AddInstalled, tmp_path: Path) -> None:
    """`Foo.Bar`, `foo_bar` and `FOO-BAR` are one distribution."""
    sys.path.append(str(add_installed("site", "foo-bar", "1.0")))
    environment = Environment(tmp_path / "installed")
    assert environment.unmet(_wishes("Foo.Bar", "foo_bar>=1", "FOO-BAR<2")).missing == []
    assert "foo-bar" in environment.names()
    assert environment.names() >= PRODUCT


def test_versions_before_a_release_count(add_installed: AddInstalled, tmp_path: Path) -> None:
    """What is there is judged by its version, also when it is a development version."""
    sys.path.append(str(add_installed("site", "foo", "2.0.dev1")))
    found = Environment(tmp_path / "installed").unmet(_wishes("foo>=1", "foo>=2"))
    assert found.conflicts == ["needs foo>=2, but foo 2.0.dev1 is installed"]


def test_an_extra_of_what_is_there_may_be_missing(add_installed: AddInstalled, tmp_path: Path) -> None:
    """Asked for with an extra, only what the extra adds is installed, not the distribution itself."""
    sys.path.append(str(add_installed("site", "foo", "1.0", "base", 'addon>=3; extra == "more"')))
    found = Environment(tmp_path / "installed").unmet(_wishes("foo[more]"))
    assert [str(wish).partition(";")[0] for wish in found.missing] == ["addon>=3"]


def test_modules_of_the_same_activation_count(tmp_path: Path) -> None:
    """A sibling is there, in its version and with its extras; one whose version nobody knows is what is asked for."""
    siblings = {
        "one": ModuleProject(tmp_path, "one", "1.0", optional={"x": ("addon",)}),
        "two": ModuleProject(tmp_path, "two"),
    }
    found = Environment(tmp_path / "installed", siblings).unmet(_wishes("one>=2", "one[x]", "two>=7"))
    assert found.conflicts == ["needs one>=2, but one 1.0 is installed"]
    assert [str(wish) for wish in found.missing] == ["addon"]


def test_what_modules_brought_is_not_the_programs(add_installed: AddInstalled, tmp_path: Path) -> None:
    """Folders of installed dependencies on the path do not make their content a part of the program."""
    sys.path.append(str(add_installed("installed/tool-x-1", "foo", "1.0")))
    assert Environment(tmp_path / "installed").version("foo") is None


def test_dependencies_of_dependencies_are_followed(add_installed: AddInstalled, tmp_path: Path) -> None:
    """What is installed is asked for its own needs, with the extras it is wanted with, loops included."""
    site = add_installed("site", "a", "1.0", "b[x]>=1", "never; python_version < '3'")
    add_installed("site", "b", "1.0", "a", 'c<2; extra == "x"', 'd; extra == "y"')
    add_installed("site", "c", "2.0", "amplifier-core>=1", "amplifier-kit>=99")
    found = Environment(tmp_path / "installed").unmet(_wishes("a"), [site])
    assert found.missing == []
    assert found.conflicts == ["b 1.0 needs c<2, but c 2.0 is installed"]
    found = Environment(tmp_path / "installed").unmet(_wishes("c"), [site])
    assert "c 2.0 needs amplifier-kit>=99, but amplifier-kit" in found.conflicts[0]
    assert installed_in(site) == {"a": "1.0", "b": "1.0", "c": "2.0"}


async def test_what_this_process_uses_already_decides(
    home: Home, environ: dict[str, str], add_wheel: AddWheel, make_module: MakeModule
) -> None:
    """A later activation in the same process lives with the versions of an earlier one, or is refused with both."""
    add_wheel("leaf-of-tests", "1.0")
    first = await Activator(home, environ=environ).activate([make_module("tool-a", ["leaf-of-tests"])])
    enter(first)
    add_wheel("leaf-of-tests", "2.0")
    enter(await Activator(home, environ=environ).activate([make_module("tool-b", ["leaf-of-tests>=1"])]))
    with pytest.raises(ModuleActivationError) as caught:
        await Activator(home, environ=environ).activate([make_module("tool-c", ["leaf-of-tests>=2"])])
    assert "this process already uses other versions" in str(caught.value)
    assert "needs leaf-of-tests>=2, but leaf-of-tests 1.0 is installed" in str(caught.value)


async def test_entering_twice_adds_nothing(activator: Activator, make_module: MakeModule) -> None:
    """The path does not grow with every session of a process."""
    module = make_module("tool-a")
    first = enter(await activator.activate([module]))
    assert first[-1] == str(module.path)
    assert enter(await activator.activate([module])) == []
