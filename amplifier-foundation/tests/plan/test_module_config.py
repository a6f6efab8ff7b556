"""Config keys that a module does not have are errors where the user can correct them, and warnings where not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_foundation.bundles.bundle import Layer, Owner
from amplifier_foundation.bundles.file import BundleFile
from amplifier_foundation.documents import parse_document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.plan.module_config import ModuleConfigError, check_module_configs, installed_config
from amplifier_foundation.plan.prepared import Prepared

PLAN = """\
session:
  orchestrator: {module: loop-basic, config: {max_iteration: 5}}
  context: {module: context-simple}
tools:
  - module: tool-bash
    config:
      timeout: 5
      timout: 7
      sandbox: off
"""


def prepare(text: str, owner: Owner = "project") -> tuple[dict[str, Any], Prepared]:
    """Return a plan that one file makes, and what a session is made of."""
    plan = yaml.safe_load(text)
    document = parse_document(Path("bundle.yaml"), text.encode())
    layers: tuple[Layer, ...] = BundleFile(document, owner, "user", "b", Path()).bundle({}).layers
    return plan, Prepared(Composed("b", "b", "", "", plan), Home(Path("/home")), Path("/project"), layers=layers)


@pytest.mark.parametrize("owner", ["project", "user", "product"])
def test_unknown_keys_of_authored_files_are_errors(owner: Owner) -> None:
    """The error names file, line, module and key, and suggests the one that was meant; all of them at once."""
    with pytest.raises(ModuleConfigError) as caught:
        check_module_configs(*prepare(PLAN, owner))
    assert str(caught.value).splitlines() == [
        "bundle.yaml:2: loop-basic: unknown config key 'max_iteration': did you mean 'max_iterations'?",
        "bundle.yaml:8: tool-bash: unknown config key 'timout': did you mean 'timeout'?",
    ]


def test_unknown_keys_of_fetched_files_are_warnings() -> None:
    """What the user cannot correct does not stop the session."""
    loop, tool = check_module_configs(*prepare(PLAN, "fetched"))
    assert loop.startswith("bundle.yaml:2: loop-basic: unknown config key 'max_iteration'")
    assert tool.startswith("bundle.yaml:8: tool-bash: unknown config key 'timout'")


def test_agents_are_checked_before_they_are_spawned() -> None:
    """An unknown key of an agent's module is an error at the start; a value it leaves to its parent is not missing."""
    text = "agents:\n  explorer:\n    tools:\n      - module: tool-bash\n        config: {timout: 7}\n"
    with pytest.raises(ModuleConfigError) as caught:
        check_module_configs(*prepare(text))
    assert str(caught.value).startswith("bundle.yaml:5: tool-bash: unknown config key 'timout'")


def test_a_session_that_ran_can_be_resumed() -> None:
    """The plan of a record raises nothing."""
    plan, prepared = prepare(PLAN)
    assert len(check_module_configs(plan, replace(prepared, is_recorded=True))) == 2


def test_keys_that_no_file_sets_are_warnings() -> None:
    """What an app put into the plan is named by its place in it."""
    plan, prepared = prepare(PLAN)
    warnings = check_module_configs(plan, replace(prepared, layers=()))
    assert warnings[1].startswith("tools[0].config: tool-bash: unknown config key 'timout'")


def test_wrong_values_are_named_with_their_line() -> None:
    """The module refuses them itself, without knowing the file."""
    text = PLAN.replace("max_iteration: 5", "max_iterations: 0").replace("timout: 7", "max_output_bytes: many")
    loop, tool = check_module_configs(*prepare(text))
    assert loop.startswith("bundle.yaml:2: loop-basic: config key 'max_iterations' must be a positive whole number")
    assert tool == (
        "bundle.yaml:8: tool-bash: config key 'max_output_bytes' must be a whole number of at least 1, got 'many'"
    )


def test_modules_from_elsewhere_are_left_alone() -> None:
    """A module in a folder may be another version, and one that publishes no model has no keys to compare with."""
    plan, prepared = prepare("tools: [{module: tool-bash, config: {new: 1}}, {module: tool-nowhere, config: {a: 1}}]")
    assert check_module_configs(plan, replace(prepared, modules={"tool-bash": Path("/m")})) == []


def test_every_module_of_ours_publishes_its_config() -> None:
    """Tools that check plans and write documentation find a model in each package."""
    modules = Path(__file__).parents[3] / "modules"
    without = [path.name for path in sorted(modules.iterdir()) if path.is_dir() and installed_config(path.name) is None]
    assert [name for name in without if "-" in name] == []
