"""The README is true: its plan entry runs, and its table lists every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_kit.config import config_keys
from amplifier_module_hooks_status_context.config import StatusConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(
    make_session: Callable[..., Any], requests_of: Callable[[Any], Any], tmp_path: Path
) -> None:
    """A session with the entry of the README describes its folder as configured there."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    async with make_session(["done"], yaml.safe_load(entry)["hooks"], tmp_path) as session:
        await session.execute("go")
        content = requests_of(session)[0][-1]["content"]
    assert f"Working directory: {tmp_path}" in content
    assert re.search(r"^Date: .* UTC[+-]", content, flags=re.MULTILINE)


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    assert rows == {key.key: _as_yaml(key.default) for key in config_keys(StatusConfig)}


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(list(value) if isinstance(value, tuple) else value).partition("\n")[0]
