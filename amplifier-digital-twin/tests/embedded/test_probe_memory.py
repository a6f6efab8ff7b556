"""A probe that found everything counts until something changes that decides it; one that did not is done again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.embedded import probe as probe_module
from amplifier_digital_twin.embedded.backend import EmbeddedBackend
from amplifier_digital_twin.embedded.probe import probe_embedded
from amplifier_digital_twin.remembered import Remembered


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let every trial succeed without being made, and count them; `fault` makes one of them fail."""
    seen: dict[str, Any] = {"walls": 0, "fault": {}}

    def trial(name: str) -> Any:
        async def answer(*arguments: Any) -> str:
            seen["walls"] += name == "walls_reason"
            fault: str = seen["fault"].get(name, "")
            return fault

        return answer

    for name in ("_too_old", "walls_reason", "filter_reason", "overlay_reason"):
        monkeypatch.setattr(probe_module, name, trial(name))
    return seen


async def test_a_whole_probe_is_remembered(tried: dict[str, Any], tmp_path: Path) -> None:
    """The second launch of a boot tries nothing out, and says the same."""
    first = await probe_embedded(Remembered(tmp_path))
    assert await probe_embedded(Remembered(tmp_path)) == first
    assert tried["walls"] == 1
    assert (await EmbeddedBackend(Remembered(tmp_path)).probe()) == first
    assert (await EmbeddedBackend().probe()).is_available
    assert tried["walls"] == 2


@pytest.mark.parametrize("name", ["_too_old", "walls_reason", "filter_reason", "overlay_reason"])
async def test_less_than_everything_is_never_remembered(tried: dict[str, Any], tmp_path: Path, name: str) -> None:
    """What is missing may be there the next time: it is looked for again."""
    tried["fault"] = {name: "not in this test"}
    first = await probe_embedded(Remembered(tmp_path))
    assert "not in this test" in f"{first.reason} {first.features}"
    tried["fault"] = {}
    assert (await probe_embedded(Remembered(tmp_path))).features["overlay"] == "yes"
    assert tried["walls"] == 2


async def test_another_bubblewrap_is_tried_out(
    tried: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one program can do says nothing about another one."""
    await probe_embedded(Remembered(tmp_path / "answers"))
    program = shutil.which("bwrap")
    assert program is not None
    shutil.copy(program, tmp_path / "bwrap")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    await probe_embedded(Remembered(tmp_path / "answers"))
    assert tried["walls"] == 2
