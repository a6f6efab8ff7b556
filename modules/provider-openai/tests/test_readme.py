"""The README is true: its tables list the config keys, and its examples mount."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS
from amplifier_module_provider_openai import CONFIG, mount

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key of the config is in a table, and no other."""
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(CONFIG.model_fields) - {"model"}
    assert "`model`" in README


def test_the_readme_explains_every_event() -> None:
    """Every event of the provider's own is explained."""
    assert [event for event in RESPONSES_EVENTS if f"`{event}`" not in README] == []


async def test_the_example_mounts() -> None:
    """The example is a plan whose provider can be mounted as it stands."""
    [block] = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    [entry] = yaml.safe_load(block)["providers"]
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, entry["config"])
    provider = coordinator.get("providers", "openai")
    assert (provider.model, provider.settings.reasoning) == ("gpt-5.5", {"effort": "high"})
