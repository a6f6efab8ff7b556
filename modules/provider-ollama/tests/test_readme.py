"""The README is true: its tables list what is read."""

from __future__ import annotations

import re
from pathlib import Path

from amplifier_kit.llm import COMMON_KEYS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_key_is_listed() -> None:
    """Every key that the code reads is in a table, and no other."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("amplifier_module_*/*.py"))
    read = set(re.findall(r'config(?:\.get\(|\[)"(\w+)"', sources))
    read |= set(re.findall(r'(?:read_\w+|_optional|env_or_config)\(\s*config, "(\w+)"', sources))
    cells = re.findall(r"^\| (`.*?`) \|", README, flags=re.M)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == (read | COMMON_KEYS) - {"model"}
    assert "`model`" in README
