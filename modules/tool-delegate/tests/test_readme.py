"""The README is true: its plan entry mounts, and its tables are the tool's."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.delegation.request import DelegationConfig
from amplifier_module_tool_delegate import mount

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def keys_of(heading: str) -> list[str]:
    """Return the first column of the table with this heading."""
    table = README.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([\w:]+)`", table, flags=re.MULTILINE)


async def test_readme() -> None:
    """The entry mounts; inputs, settings with their defaults, and events are those that there are."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [module] = yaml.safe_load(entry)["tools"]
    coordinator = MockCoordinator()
    coordinator.register_capability("model_role_resolver", type("Resolver", (), {"known_roles": ["fast"]})())
    await mount(coordinator, module["config"])
    tool = coordinator.get("tools")["delegate"]
    assert module["module"] == "tool-delegate"
    assert set(keys_of("Input")) == set(tool.input_schema["properties"])
    assert set(keys_of("Key of `settings`")) == set(DelegationConfig.model_fields) - {"inherit_tools", "inherit_hooks"}
    defaults = DelegationConfig()
    for key in ("timeout", "heartbeat_interval", "max_parallel", "max_recursion_depth", "response_limit"):
        assert f"| `{key}` | `{getattr(defaults, key):g}` |".replace("1e+05", "100000") in README
    [events] = await coordinator.collect_contributions("observability.events")
    assert set(keys_of("Event")) == set(events)
