"""Sources of modules."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from amplifier_core import module_sources
from amplifier_core.module_sources import (
    FileSystemModuleSource,
    ModuleLoadError,
    ModuleNotFoundError,
    ModuleSource,
    ModuleSourceResolver,
)


def test_errors_are_plain_exceptions() -> None:
    """The errors are the kernel's own: the builtin of the same name is another class."""
    assert ModuleNotFoundError.__bases__ == ModuleLoadError.__bases__ == (Exception,)
    assert not issubclass(ModuleNotFoundError, builtins.ModuleNotFoundError)


def test_source_is_abstract() -> None:
    """A source must say where it is."""
    with pytest.raises(TypeError):
        ModuleSource()  # type: ignore[abstract]


def test_a_resolver(tmp_path: Path) -> None:
    """A resolver is any object with resolve(); its source gives a path."""

    class Folder(ModuleSource):
        def resolve(self) -> Path:
            return tmp_path

    class Resolver:
        def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> ModuleSource:
            if module_id != "tool-echo":
                raise ModuleNotFoundError(module_id)
            return Folder()

    resolver: ModuleSourceResolver = Resolver()
    assert resolver.resolve("tool-echo").resolve() == tmp_path
    with pytest.raises(ModuleNotFoundError):
        resolver.resolve("tool-other")


def test_paths_are_copied_in_and_out() -> None:
    """Neither the list given nor the list returned is the one kept."""
    paths = ["a"]
    source = FileSystemModuleSource(paths)
    paths.append("b")
    source.get_module_paths().append("c")
    source.get_mention_mappings()["@x"] = "y"
    assert source.get_module_paths() == ["a"]
    assert source.get_mention_mappings() == {}


def test_no_paths() -> None:
    """Without paths there is nothing to search."""
    assert FileSystemModuleSource().get_module_paths() == []
    assert FileSystemModuleSource(paths=None).get_module_paths() == []


def test_file_system_source_is_no_module_source() -> None:
    """It names folders to search in and resolves no module itself."""
    assert not issubclass(FileSystemModuleSource, ModuleSource)


def test_public_names() -> None:
    """Every public name exists."""
    assert all(hasattr(module_sources, name) for name in module_sources.__all__)
