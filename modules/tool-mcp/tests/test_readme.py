"""The README is true: its entry mounts, its keys and defaults are those of the module, its result is a real one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from amplifier_module_tool_mcp.config import McpConfig, Retry, Visibility
from amplifier_module_tool_mcp.tools import _CODES

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
Session = Any


async def test_the_entry(session: Session) -> None:
    """The entry has the module's id, and both of its servers are understood."""
    [text] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [entry] = yaml.safe_load(text)["tools"]
    assert entry["module"] == "tool-mcp"
    await session.open(entry["config"]["servers"], retry={"attempts": 1}, connect_timeout=5)
    assert session.connection("files").spec.required
    assert session.connection("issues").spec.transport == "http"


def test_the_keys() -> None:
    """Every key is in the table with its default."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", README, flags=re.MULTILINE))
    assert set(rows) == McpConfig.model_fields.keys()
    for key, default in rows.items():
        if default.startswith("`") and key != "server_log_dir":
            assert yaml.safe_load(default.strip("`")) == getattr(McpConfig(), key), key
    for group in (Visibility(), Retry()):
        for key, value in group:
            assert f"`{key}` (`{json.dumps(value)}`)".replace('"', "") in README


async def test_the_result(session: Session, sample: dict[str, Any]) -> None:
    """The result that is shown is what the tool returns, and all codes are named."""
    [shown] = re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)
    await session.open({"sample": sample})
    assert (await session.call("sample_add", a=1, b=2)).output == json.loads(shown)
    assert all(f"`{code}`" in README for code in (*_CODES.values(), "mcp_unavailable", "mcp_tool_error"))
