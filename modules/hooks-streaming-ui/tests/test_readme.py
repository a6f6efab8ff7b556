"""The README is true: its plan entry runs and shows what the page shows, and its table lists every key."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_kit.config import config_keys
from amplifier_module_hooks_streaming_ui.config import UiConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(make_session: Callable[..., Any], make_stream: Callable[..., Any]) -> None:
    """A session with the entry of the README leaves on the stream what the README shows."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [expected] = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    stream = make_stream()
    output = "\n".join(f"file-{number}.py" for number in range(9))
    replies = [
        {"thinking": "I should look at the files first.", "calls": [("say", {"output": output})]},
        {"text": "There are nine files."},
    ]
    async with make_session(replies, yaml.safe_load(entry)["hooks"], stream) as session:
        await session.execute("How many files are there?")
    lines = [re.sub(r"\(.*?ms\)", "(1 ms)", line.rstrip()) for line in stream.lines]
    assert lines == expected.splitlines()


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    known = {key.key: yaml.safe_dump(key.default).partition("\n")[0] for key in config_keys(UiConfig)}
    assert rows == known
