"""Folders are on Python's path while a session needs them, and no longer."""

import importlib
import importlib.util
import py_compile
import sys
from pathlib import Path

import pytest

from amplifier_foundation.plan.import_path import hold


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return an import path that is put back afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return sys.path


def test_folders_come_last_and_go_again(tmp_path: Path, path: list[str]) -> None:
    """The program's own packages win, each folder is there once, and letting go twice is letting go once."""
    before = list(path)
    release = hold([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    assert path == [*before, str(tmp_path / "a"), str(tmp_path / "b")]
    release()
    release()
    assert path == before


def test_the_last_session_takes_them_off(tmp_path: Path, path: list[str]) -> None:
    """A folder that two sessions need stays until both have ended, in whatever order."""
    first, second = hold([tmp_path]), hold([tmp_path])
    first()
    assert str(tmp_path) in path
    second()
    assert str(tmp_path) not in path


def test_what_was_there_before_stays(tmp_path: Path, path: list[str]) -> None:
    """A folder that somebody else put on the path is not taken off, and one that somebody took off is no error."""
    path.append(str(tmp_path))
    hold([tmp_path])()
    assert str(tmp_path) in path
    release = hold([tmp_path / "a"])
    path.remove(str(tmp_path / "a"))
    release()


def _compiled(source: str, folder: Path, package: str) -> bytes:
    """Return a compiled file that Python takes without looking at the source beside it."""
    evil = folder / "evil.py"
    evil.write_text(source, encoding="utf-8")
    made = py_compile.compile(
        str(evil), str(folder / f"{package}.made"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    evil.unlink()
    assert made is not None
    return Path(made).read_bytes()


@pytest.mark.parametrize("is_project", [True, False], ids=["in the project", "elsewhere"])
def test_compiled_files_of_a_project_are_not_loaded(
    tmp_path: Path, is_project: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of a project is what its source says, whatever a command has put into `__pycache__` or beside it."""
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    package = f"planted_{'in' if is_project else 'out'}"
    folder = tmp_path / "project" / "modules" / "tool-x"
    (folder / package / "__pycache__").mkdir(parents=True)
    (folder / package / "__init__.py").write_text("WORD = 'source'\n", encoding="utf-8")
    (folder / package / "inner.py").write_text("WORD = 'source'\n", encoding="utf-8")
    evil = _compiled("WORD = 'planted'\n", tmp_path, package)
    for name in ("__init__", "inner"):
        (folder / package / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc").write_bytes(evil)
    (folder / package / "alone.pyc").write_bytes(evil)
    project = tmp_path / "project" if is_project else tmp_path / "other"
    release = hold([folder], project)
    try:
        words = [importlib.import_module(name).WORD for name in (package, f"{package}.inner")]
        assert words == ["source"] * 2 if is_project else ["planted"] * 2
        assert (importlib.util.find_spec(f"{package}.alone") is None) is is_project
    finally:
        release()
        for name in (package, f"{package}.inner"):
            sys.modules.pop(name, None)
