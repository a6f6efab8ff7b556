"""The README is true: its tables list the config keys, its example mounts, and its commands are there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.local_model import INSTALL_COMMAND, PARTS
from amplifier_module_provider_local import CONFIG, mount

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key of the config is in a table, and no other."""
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(CONFIG.model_fields) - {"model"}
    assert "`model`" in README


async def test_the_example_mounts() -> None:
    """The example is a config that mounts."""
    [block] = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    [entry] = yaml.safe_load(block)["providers"]
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator, entry["config"])
    assert coordinator.get("providers", "local").model == "qwen3-4b-q4_k_m"
    await cleanup()


def test_the_commands_are_right() -> None:
    """The command that errors name is the one of the README, with the size of what it downloads."""
    assert f"{INSTALL_COMMAND} --yes" in README
    assert f"about {sum(part.megabytes for part in PARTS)} MB" in README


def test_one_version_everywhere() -> None:
    """The extra of the project names the engine in the version that is installed by the command."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    engine, weights = PARTS
    assert f'local = ["{engine.requirement}"]' in project
    assert weights.distribution not in project
