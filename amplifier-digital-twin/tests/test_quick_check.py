"""One whole check in a real container, on every change."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_testing.universe import twin_program, universes_work

__all__ = ["universes_work"]


@pytest.mark.timeout(900)  # the first one on a machine makes the base image
def test_a_cold_check_passes_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, universes_work: None
) -> None:
    """From nothing to a verdict: the container is made, confined, checked and gone."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    path = tmp_path / "p.yaml"
    path.write_text(
        "dtu: 1\nname: quick\nisolation: best-effort\nlimits: {memory: 256m, disk: 64m}\n"
        "provision: {commands: [echo made > file]}\n"
        "checks: [{name: it-runs, run: 'id -un; cat file', expect: {stdout: user, files: [~/file]}}]\n",
        encoding="utf-8",
    )
    answer = twin_program("check", str(path))
    assert (answer["verdict"], answer["reason"]) == ("pass", "")
    assert twin_program("list")["universes"] == []
