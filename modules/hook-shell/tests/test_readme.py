"""The README is true: its plan entry runs, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.hook_events import HOOK_EVENTS
from amplifier_module_hook_shell.reports import EVENTS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(make_rig: Any) -> None:
    """A session with the entry of the README stops the one command and lets the other pass."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    calls = [[("bash", {"command": "rm -rf build"})], [("bash", {"command": "ls"})], "done"]
    rig = await make_rig(None, calls, plan=yaml.safe_load(entry))
    await rig.run()
    assert rig.tools["bash"].inputs == [{"command": "ls"}]
    assert "not with rm -rf" in (await rig.texts("tool"))[0]


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    table = README.partition("## Where")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", table, flags=re.MULTILINE))
    settings = ShellHooksConfig()
    assert rows == {key: str(getattr(settings, key)) for key in ShellHooksConfig.model_fields}


def test_the_table_of_hooks_has_every_event() -> None:
    """Names, events and subjects of the table are those of the code."""
    table = README.partition("## Events")[2].partition("## ")[0]
    rows = [[cell.strip().replace("`", "") for cell in line.split("|")[1:4]] for line in table.splitlines()]
    said = {row[0]: (row[1], row[2]) for row in rows if row and row[0] in HOOK_EVENTS}
    assert said == {
        name: (", ".join(hook_event.events), hook_event.subject or "") for name, hook_event in HOOK_EVENTS.items()
    }


def test_the_table_lists_every_event() -> None:
    """The events of the table are those that are emitted."""
    assert tuple(re.findall(r"^\| `(hook-shell:\w+)` \|", README, flags=re.MULTILINE)) == EVENTS
