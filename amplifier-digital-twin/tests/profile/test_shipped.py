"""Profiles that come with the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.load import load_profile
from amplifier_digital_twin.profile.shipped import locate, shipped, shipped_names


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_profiles_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every profile that is shipped can be loaded from anywhere, and is called what its file is called."""
    monkeypatch.chdir(tmp_path)
    assert load_profile(name, {}, {}).name == name


def test_shipped_profiles_are_about_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of a path in a shipped profile is where the user stands, not where the program is installed."""
    monkeypatch.chdir(tmp_path)
    assert load_profile("e2e-event-logging", {}, {}).repositories[0].path == tmp_path


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """A slip in a name is met with a suggestion."""
    with pytest.raises(TwinError) as caught:
        locate("e2e-event-loging")
    assert (caught.value.code, "did you mean 'e2e-event-logging'?" in caught.value.remedy) == ("profile_unknown", True)


@pytest.mark.parametrize("path", ["nowhere.yaml", "./nowhere", "."])
def test_a_path_that_is_no_file_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a path is never looked up among the shipped ones."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TwinError) as caught:
        locate(path)
    assert caught.value.code == "profile_unknown"


def test_a_file_is_found_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, and files without a suffix, are paths; a shipped name stays a shipped name."""
    monkeypatch.chdir(tmp_path)
    for name in ("own", "own.yaml", "test-suite"):
        (tmp_path / name).write_text("dtu: 1\nname: x\n", encoding="utf-8")
    assert locate("own") == tmp_path / "own"
    assert locate("own.yaml") == tmp_path / "own.yaml"
    assert locate("test-suite") == shipped("test-suite")
    assert locate("./test-suite") == tmp_path / "test-suite"
