"""The README is true: its table lists every key with its default, and its mode is one."""

from __future__ import annotations

import re
from pathlib import Path

from amplifier_kit.config import config_keys
from amplifier_kit.modes import parse_mode
from amplifier_module_hooks_mode import CONFIG

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the first table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README.partition("## A mode")[0], flags=re.MULTILINE))
    assert rows == {key.key: str(key.default) for key in config_keys(CONFIG)}


def test_the_example_is_a_mode() -> None:
    """The file that the README shows is read without a problem."""
    [shown] = re.findall(r"```markdown\n(.*?)```", README, flags=re.DOTALL)
    mode = parse_mode(Path("x.md"), shown.encode(), "user")
    assert mode is not None
    assert (mode.name, mode.shortcut, mode.confirm_tools) == ("review", "review", ("write_file",))
    assert mode.context == "Comment on what could break, with file and line."
