"""The README is true: its tables list the config keys, and its examples mount."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_vllm import CONFIG, VLLMChatProvider, VLLMProvider, mount

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key of the config is in a table, and no other."""
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(CONFIG.model_fields) - {"model"}
    assert "`model`" in README


async def test_the_examples_mount() -> None:
    """Every provider of the examples can be mounted as it is written."""
    blocks = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    kinds = []
    for block in blocks:
        [entry] = yaml.safe_load(block)["providers"]
        coordinator: MockCoordinator = MockCoordinator()
        assert await mount(coordinator, entry["config"]) is not None
        kinds.append(type(coordinator.get("providers", "vllm")))
    assert kinds == [VLLMProvider, VLLMChatProvider]
