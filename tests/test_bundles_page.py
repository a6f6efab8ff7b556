"""The bundle guide names every key there is and everything that ships; its blocks are run with all other pages."""

from __future__ import annotations

import re
from pathlib import Path

from amplifier_foundation.bundles.checks import (
    AGENT_FIELDS,
    BUNDLE_FIELDS,
    MODULE_FIELDS,
    SPAWN_FIELDS,
    TOP_LEVEL_FIELDS,
)
from amplifier_foundation.bundles.shipped import SHIPPED_NAMESPACE, shipped_bundles, shipped_skills

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "bundles.md").read_text(encoding="utf-8")
SHIPPED = SHIPPED_NAMESPACE[1]
#: Known so that old bundles load; the page says below the table that they do nothing.
WITHOUT_EFFECT = {"default_provider", "sub_bundles"}


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _column(title: str, heading: str) -> list[str]:
    """Return the words in code style in the first column of the table whose first heading is given."""
    table = _section(title).partition(f"| {heading} |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (.*?) \|", table, flags=re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def _named(folder: str) -> list[str]:
    return sorted(f"{folder}/{path.stem}" for path in (SHIPPED / folder).iterdir())


def test_the_tables_of_keys_are_whole() -> None:
    """Every key that a bundle, a module entry or an agent may have is in its table, and no other."""
    assert set(_column("Keys", "Top-level key")) == {*TOP_LEVEL_FIELDS} - WITHOUT_EFFECT
    assert set(_column("Keys", "Key of a module entry")) == set(MODULE_FIELDS)
    assert {*_column("Agents", "Key of an agent")} == {*AGENT_FIELDS} - {"name"}  # which is told with `meta`


def test_keys_of_parts_are_told() -> None:
    """What stands under `bundle` and under `spawn` is told with them, and what does nothing is said to do nothing."""
    keys = _section("Keys")
    assert {key for key in (*BUNDLE_FIELDS, *SPAWN_FIELDS) if f"`{key}" not in keys} == set()
    assert {key for key in WITHOUT_EFFECT if f"`{key}`" not in keys.partition("\n\n")[2]} == set()


def test_all_that_ships_is_listed() -> None:
    """Each bundle, behavior, agent and skill of the product is in its table, and nothing else is."""
    assert sorted(_column("What ships", "Bundle")) == sorted(shipped_bundles())
    assert sorted(_column("What ships", "Behavior")) == [f"amplifier:{name}" for name in _named("behaviors")]
    agents = [name.replace("agents/", "amplifier:") for name in _named("agents")]
    assert sorted(set(_column("What ships", "Agent")) - {"parallax"}) == agents
    for path in (*shipped_skills().iterdir(), *(SHIPPED / "context").iterdir()):
        assert path.name in _section("What ships")
