"""`check`: launch, checks, evidence, destroy, and the verdict by exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(("mode", "code", "verdict"), [("ok", 0, "pass"), ("check-fail", 1, "fail")])
def test_verdict_is_the_exit_code(twin: Any, tmp_path: Path, mode: str, code: int, verdict: str) -> None:
    """0 is pass and 1 is fail; the evidence is there, the universe is not."""
    ended = twin.run("check", str(twin.profile), "--var", f"MODE={mode}", "--evidence", str(tmp_path / "evidence"))
    assert (ended.code, ended.record["verdict"], ended.record["kept"]) == (code, verdict, False)
    assert f"verdict: {verdict}" in ended.stderr
    assert (tmp_path / "evidence" / "verdict.json").exists()
    assert twin.universes() == []


@pytest.mark.parametrize("mode", ["fail", "check-error"])
def test_what_cannot_be_found_out_is_an_error(twin: Any, mode: str) -> None:
    """When the launch or the checks cannot be done, that is neither pass nor fail, and the universe is destroyed."""
    ended = twin.run("check", str(twin.profile), "--var", f"MODE={mode}")
    assert (ended.code, ended.record["error"]["code"]) == (2, "pretend_failed")
    assert twin.universes() == []


def test_evidence_goes_home_when_no_place_is_named(twin: Any) -> None:
    """Without --evidence it is kept in the home, by the universe's identifier."""
    record = twin.run("check", str(twin.profile)).record
    assert Path(record["evidence"]) == twin.folder / "evidence" / record["id"]
    assert Path(record["evidence"], "verdict.json").exists()


def test_old_evidence_is_never_mixed_with_new(twin: Any, tmp_path: Path) -> None:
    """A folder in which there is something is refused before anything is made."""
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "old").touch()
    ended = twin.run("check", str(twin.profile), "--evidence", str(tmp_path / "evidence"))
    assert (ended.code, ended.record["error"]["code"]) == (2, "evidence_exists")
    assert twin.universes() == []


def test_keep_keeps_the_universe(twin: Any) -> None:
    """With --keep the universe stays, whatever the verdict."""
    record = twin.run("check", str(twin.profile), "--keep").record
    assert record["kept"] is True
    assert twin.run("status", record["id"]).code == 0


@pytest.mark.parametrize(("mode", "stays"), [("check-fail", True), ("check-error", True), ("ok", False)])
def test_profile_can_keep_what_failed(twin: Any, mode: str, stays: bool) -> None:
    """`on_failure: keep` keeps a universe whose checks failed, and no other."""
    with open(twin.profile, "a", encoding="utf-8") as file:
        file.write("on_failure: keep\n")
    twin.run("check", str(twin.profile), "--var", f"MODE={mode}")
    assert bool(twin.universes()) is stays


def test_universe_whose_destroy_fails_is_removed_all_the_same(twin: Any) -> None:
    """What the universe itself cannot do is done from what is written down."""
    ended = twin.run("check", str(twin.profile), "--var", "MODE=destroy-raises")
    assert (ended.code, ended.record["kept"]) == (0, False)
    assert twin.universes() == []
