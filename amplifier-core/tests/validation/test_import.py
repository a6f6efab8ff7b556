"""How modules are imported for validation: the very files asked for, or not at all."""

from __future__ import annotations

import sys
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.validation import ToolValidator
from amplifier_core.validation._import import private_import
from amplifier_core.validation.base import import_module_from_path

WriteModule = Callable[[str], Path]

TOOL = """
class T:
    name = "t"
    description = "d"
    async def execute(self, input): ...
async def mount(coordinator, config=None): return T()
"""


@pytest.fixture
def name() -> Iterator[str]:
    """Give a module name that nobody else has, and forget it afterwards."""
    unique = f"validated_{uuid.uuid4().hex}"
    yield unique
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] == unique:
            del sys.modules[loaded]


def write_package(parent: Path, name: str, init: str = "", **files: str) -> Path:
    """Write a package with the given submodules."""
    package = parent / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(init)
    for stem, source in files.items():
        (package / f"{stem}.py").write_text(source)
    return package


def test_package_is_imported_normally(tmp_path: Path, name: str) -> None:
    """A package gets its own name, can import its parts, and sys.path is as before."""
    package = write_package(tmp_path, name, f"from . import sub\nfrom {name}.sub import X", sub="X = 1")
    before = list(sys.path)
    module = import_module_from_path(package)
    assert module is sys.modules[name]
    assert module.X == 1
    assert sys.path == before


def test_same_file_gives_the_loaded_module(tmp_path: Path, name: str) -> None:
    """Importing the same files again runs nothing again, by whatever path they are named."""
    package = write_package(tmp_path, name)
    module = import_module_from_path(package)
    assert import_module_from_path(str(package)) is module
    assert import_module_from_path(package / "__init__.py") is module
    link = tmp_path / "elsewhere"
    link.symlink_to(tmp_path)
    assert import_module_from_path(link / name) is module


def test_single_file(tmp_path: Path, name: str) -> None:
    """A single Python file is a module too."""
    file = tmp_path / f"{name}.py"
    file.write_text("X = 1")
    assert import_module_from_path(file).X == 1


def test_other_files_of_the_same_name_are_refused(tmp_path: Path, name: str) -> None:
    """Two checkouts of one module are never confused: the error names both."""
    first = write_package(tmp_path / "a", name)
    second = write_package(tmp_path / "b", name)
    import_module_from_path(first)
    with pytest.raises(ImportError) as caught:
        import_module_from_path(second)
    assert str(caught.value) == (
        f"Refusing to import '{name}' from {second}/__init__.py: it is already loaded from {first}/__init__.py"
    )


def test_cached_submodule_of_other_files_is_refused(tmp_path: Path, name: str) -> None:
    """A part that is left over from another checkout would be mixed in, so that is refused too."""
    first = write_package(tmp_path / "a", name, "from . import sub", sub="")
    second = write_package(tmp_path / "b", name, "from . import sub", sub="")
    import_module_from_path(first)
    del sys.modules[name]
    with pytest.raises(ImportError) as caught:
        import_module_from_path(second)
    assert str(caught.value) == (
        f"Refusing to import '{name}' from {second}/__init__.py: cached submodule '{name}.sub' is from {first}/sub.py"
    )


def test_module_without_a_file_is_refused(tmp_path: Path, name: str) -> None:
    """A module of that name that came from no file is another one."""
    package = write_package(tmp_path, name)
    sys.modules[name] = types.ModuleType(name)
    with pytest.raises(ImportError, match="it is already loaded from None"):
        import_module_from_path(package)


def test_folder_without_init_is_refused(tmp_path: Path, name: str) -> None:
    """A namespace package is not the file that was asked for, and does not stay behind."""
    (tmp_path / name).mkdir()
    with pytest.raises(ImportError) as caught:
        import_module_from_path(tmp_path / name)
    assert str(caught.value) == (
        f"Refusing to validate '{name}' from {tmp_path}/{name}/__init__.py: Python imported None"
    )
    assert name not in sys.modules


def test_failed_import_leaves_no_parts_behind(tmp_path: Path, name: str) -> None:
    """After an author fixed the fault, or moved the module, the next import is not hindered by the last."""
    package = write_package(tmp_path / "a", name, "from . import sub\nraise ValueError('not yet')", sub="")
    with pytest.raises(ValueError, match="not yet"):
        import_module_from_path(package)
    assert not [loaded for loaded in sys.modules if loaded.startswith(name)]
    import_module_from_path(write_package(tmp_path / "b", name, "from . import sub", sub=""))


def test_private_import_is_fresh_and_puts_back(tmp_path: Path, name: str) -> None:
    """A private copy has state of its own, parts of its own, and leaves the loaded module in place."""
    package = write_package(tmp_path, name, "from . import sub\nSTATE = []", sub="")
    loaded = import_module_from_path(package)
    before = list(sys.path)
    with private_import(package) as private:
        assert private is sys.modules[name]
        assert private is not loaded
        assert private.STATE is not loaded.STATE
        assert sys.modules[f"{name}.sub"] is not loaded.sub
    assert sys.modules[name] is loaded
    assert sys.modules[f"{name}.sub"] is loaded.sub
    assert sys.path == before


def test_private_import_puts_back_after_a_fault(tmp_path: Path, name: str) -> None:
    """A module that fails to import leaves nothing behind either."""
    package = write_package(tmp_path, name, "raise ValueError('no')")
    with pytest.raises(ValueError, match="no"), private_import(package):
        pass
    assert name not in sys.modules


def test_another_thread_may_import_meanwhile(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that appears while loaded modules are searched, as another thread imports it, does no harm."""

    class Importing(str):
        def startswith(self, *prefix: Any) -> bool:
            for part in "abc":
                monkeypatch.setitem(sys.modules, f"other_{name}_{part}", types.ModuleType("other"))
            return False

    monkeypatch.setitem(sys.modules, Importing(f"slow_{name}"), types.ModuleType("slow"))
    with private_import(write_package(tmp_path, name, "")) as private:
        assert sys.modules[name] is private


async def test_validate_accepts_path_text_and_dotted_name(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """validate() takes a Path, its text, and the dotted name of what can be imported."""
    package = write_module(TOOL)
    for given in (package, str(package)):
        assert (await ToolValidator().validate(given)).checks[0].message == f"Module loaded from {package}"
    monkeypatch.syspath_prepend(str(package.parent))
    result = await ToolValidator().validate(package.name)
    assert result.passed
    assert result.checks[0].message == f"Module '{package.name}' imported successfully"


async def test_validate_says_why_an_import_failed(write_module: WriteModule, tmp_path: Path) -> None:
    """Each way to fail has its words, and nothing after it is checked."""
    bare = tmp_path / "bare"
    bare.mkdir()
    cases = {
        str(bare): f"No __init__.py found in {bare}",
        "no_such_module.at_all": "Failed to import module: No module named 'no_such_module'",
        str(write_module("import no_such_module")): "Failed to import module: No module named 'no_such_module'",
        str(write_module("def (")): "Error loading module: invalid syntax (__init__.py, line 1)",
        str(write_module("raise ValueError('bad')")): "Error loading module: bad",
        str(write_module("raise GeneratorExit('odd')")): "Error loading module: odd",
    }
    for path, message in cases.items():
        result = await ToolValidator().validate(path)
        assert [(check.name, check.severity, check.message) for check in result.checks] == [
            ("module_importable", "error", message)
        ]


@pytest.mark.parametrize("path", ["x" * 5000, "nul\0", None])
async def test_validate_bears_impossible_paths(path: Any) -> None:
    """What can be neither a path nor a name is a failed import."""
    result = await ToolValidator().validate(path)
    assert [(check.name, check.passed) for check in result.checks] == [("module_importable", False)]


async def test_validate_lets_interrupts_through(write_module: WriteModule) -> None:
    """A module that exits while it is imported is not reported as anything else."""
    with pytest.raises(SystemExit):
        await ToolValidator().validate(write_module("raise SystemExit(3)"))
