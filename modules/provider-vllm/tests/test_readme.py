"""The README is true: its tables list what is read, and its examples mount."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm import COMMON_KEYS
from amplifier_kit.llm.chat import CHAT_KEYS
from amplifier_kit.llm.responses import ResponsesSettings
from amplifier_module_provider_vllm import VLLMChatProvider, VLLMProvider, mount

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key that the code reads is in a table, and no other."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("amplifier_module_*/*.py"))
    read = set(re.findall(r'config(?:\.get\(|\[)"(\w+)"', sources))
    read |= set(re.findall(r'(?:read_\w+|env_or_config)\(\s*(?:self\.)?config, "(\w+)"', sources))
    read |= {field.name for field in fields(ResponsesSettings)} - {"insists_on_retention"}
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == (read | COMMON_KEYS | CHAT_KEYS) - {"model"}
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
