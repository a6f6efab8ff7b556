"""How modules are imported for validation: the very files asked for, or not at all."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.validation import ToolValidator
from amplifier_core.validation.base import import_module_from_path


@pytest.fixture
def name() -> Iterator[str]:
    """Return a unique module name; forget the module afterwards."""
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


def test_same_file_gives_the_loaded_module(tmp_path: Path, name: str) -> None:
    """Importing the same files again runs nothing again, by whatever path they are named."""
    package = write_package(tmp_path, name)
    module = import_module_from_path(package)
    assert import_module_from_path(str(package)) is module
    assert import_module_from_path(package / "__init__.py") is module
    link = tmp_path / "elsewhere"
    link.symlink_to(tmp_path)
    assert import_module_from_path(link / name) is module


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


def test_folder_without_init_is_refused(tmp_path: Path, name: str) -> None:
    """A namespace package is not the file that was asked for, and does not stay behind."""
    (tmp_path / name).mkdir()
    with pytest.raises(ImportError) as caught:
        import_module_from_path(tmp_path / name)
    assert str(caught.value) == (
        f"Refusing to validate '{name}' from {tmp_path}/{name}/__init__.py: Python imported None"
    )
    assert name not in sys.modules


@pytest.mark.parametrize("path", ["x" * 5000, "nul\0", None])
async def test_validate_bears_impossible_paths(path: Any) -> None:
    """What can be neither a path nor a name is a failed import."""
    result = await ToolValidator().validate(path)
    assert [(check.name, check.passed) for check in result.checks] == [("module_importable", False)]
