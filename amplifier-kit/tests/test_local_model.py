"""The parts of the embedded model are found where they are, without being imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amplifier_kit.local_model import ENGINE, PARTS, WEIGHTS, LocalPart, find_local_model, local_model_folder


def _put(folder: Path, part: LocalPart) -> Path:
    package = folder / part.package
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    if part is WEIGHTS:
        (package / "some weights.gguf").write_bytes(b"GGUF")
    return package


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what this environment has."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_nothing_is_there(bare: None, tmp_path: Path) -> None:
    """Without parts nothing is found, and a folder without a package in it is nothing either."""
    (local_model_folder(tmp_path) / ENGINE.package).mkdir(parents=True)
    found = find_local_model(tmp_path)
    assert (found.engine, found.weights, found.is_complete) == (None, None, False)


def test_in_the_home(bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts in the folder of the user's home are found; one alone is not enough."""
    folder = local_model_folder(tmp_path)
    _put(folder, ENGINE)
    assert not find_local_model(tmp_path).is_complete
    weights = _put(folder, WEIGHTS)
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))
    found = find_local_model()
    assert found.is_complete
    assert (found.engine, found.weights) == (folder, weights / "some weights.gguf")


def test_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the environment is used before the home's, and is not imported by being found."""
    for part in PARTS:
        _put(local_model_folder(tmp_path), part)
        _put(tmp_path / "environment", part)
        monkeypatch.delitem(sys.modules, part.package, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "environment"))
    found = find_local_model(tmp_path)
    assert found.engine == tmp_path / "environment"
    assert found.weights == tmp_path / "environment" / WEIGHTS.package / "some weights.gguf"
