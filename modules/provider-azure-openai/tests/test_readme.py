"""The README is true: its tables list the config keys, and its examples mount."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.responses.provider import RESPONSES_EVENTS
from amplifier_module_provider_azure_openai import CONFIG, mount

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Other names of keys in the tables, which the text mentions.
OTHER_NAMES = {"model", "default_model", "base_url"}


def test_every_key_is_listed() -> None:
    """Every key of the config is in a table, and no other."""
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(CONFIG.model_fields) - OTHER_NAMES
    assert [name for name in OTHER_NAMES if f"`{name}`" not in README] == []


def test_every_variable_is_listed() -> None:
    """Every variable of the environment that the code reads is named, and no other."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("amplifier_module_*/*.py"))
    assert set(re.findall(r"\bAZURE_\w+", README)) == set(re.findall(r'"(AZURE_\w+)"', sources))


def test_the_readme_explains_every_event() -> None:
    """Every event of the provider's own is explained."""
    assert [event for event in RESPONSES_EVENTS if f"`{event}`" not in README] == []


async def test_the_example_mounts() -> None:
    """The example is a plan whose provider can be mounted as it stands."""
    [block] = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    [entry] = yaml.safe_load(block)["providers"]
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator, entry["config"])
    provider = coordinator.get("providers", "azure-openai")
    assert (provider.model, provider.base_url) == ("gpt-5.4", "https://my-resource.openai.azure.com/openai")
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("openai", "httpx2", "genai_prices", "jsonschema", "azure")
    assert imported_by_mounting("amplifier_module_provider_azure_openai", {}, *names) == []
