"""Settings about a module whose name is mistyped say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose

_OF_AGENT = "bundle: {name: own}\nincludes: [minimal]\nagents: {helper: {tools: [{module: tool-helper}]}}\n"


async def _warnings(tmp_path: Path, overrides: str, more: str = "") -> list[str]:
    home, project = Home(tmp_path / "home"), tmp_path / "project"
    home.path.mkdir()
    project.mkdir()
    (project / "own.yaml").write_text(_OF_AGENT, encoding="utf-8")
    home.settings.write_text(f"overrides:\n  {overrides}\n{more}", encoding="utf-8")
    warnings = (await compose(Options(home, project, bundle="own.yaml"))).warnings
    return [warning for warning in warnings if "overrides" in warning]


@pytest.mark.parametrize(
    ("given", "meant"), [("tool-bahs", "tool-bash"), ("bash", "tool-bash"), ("tool-helpr", "tool-helper")]
)
async def test_a_mistyped_name_gets_a_suggestion(tmp_path: Path, given: str, meant: str) -> None:
    """A name that is nearly that of a module, or leaves out its kind, gets a suggestion with file and line."""
    [warning] = await _warnings(tmp_path, f"{given}: {{config: {{timeout: 3}}}}")
    where = f"{tmp_path}/home/settings.yaml:2"
    assert warning == f"{where}: overrides.{given} does nothing: no module has that name; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("overrides", "more"),
    [
        ("loop-basic: {config: {max_iterations: 3}}", ""),  # in the plan
        ("tool-bash: {config: {timeout: 3}}", ""),  # not in this plan, but installed
        ("tool-helper: {config: {depth: 3}}", ""),  # of an agent alone
        ("tool-of-another-bundle: {config: {depth: 3}}", ""),  # like nothing that is known
        ("tool-bahs: {source: ./tool-bahs}", ""),  # says itself where it comes from
        ("tool-bahs: {config: {depth: 3}}", "sources: {modules: {tool-bahs: ./tool-bahs}}\n"),
    ],
)
async def test_what_may_be_meant_gets_no_warning(tmp_path: Path, overrides: str, more: str) -> None:
    """Settings for modules of this bundle, of another one, or of one's own, are no slips."""
    assert await _warnings(tmp_path, overrides, more) == []
