"""The README is true: its tables list the config keys."""

from __future__ import annotations

import re
from pathlib import Path

from amplifier_module_provider_ollama import CONFIG

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key of the config is in a table, and no other."""
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(CONFIG.model_fields) - {"model"}
    assert "`model`" in README
