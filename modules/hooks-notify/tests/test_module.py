"""The module passes the tests of its kind, and its README lists its keys."""

from __future__ import annotations

import re
from pathlib import Path

from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests
from amplifier_kit.config import config_keys
from amplifier_module_hooks_notify import CONFIG

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


class TestStructure(HookStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(HookBehaviorTests):
    """It behaves as every hook must."""


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    assert rows == {key.key: str(key.default) for key in config_keys(CONFIG)}
