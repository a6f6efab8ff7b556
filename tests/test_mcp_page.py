"""The page about MCP servers names every key and event that there is; its commands are run with all other pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from amplifier_module_tool_mcp.config import McpConfig, Retry
from amplifier_module_tool_mcp.events import EVENTS
from amplifier_module_tool_mcp.server_entry import AddressEntry, ProgramEntry

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _first_cells(title: str) -> set[str]:
    """Return the words in code style in the first column of a section's table."""
    rows = re.findall(r"^\| (.*?) \|", _section(title), flags=re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def test_every_key_of_an_entry_is_there() -> None:
    """The table of entries has all keys that are read, and no others."""
    read = {*ProgramEntry.model_fields, *AddressEntry.model_fields, "type", "disabled"}
    assert _first_cells("Entries") == read


def test_every_event_is_there() -> None:
    """The table of events has all that the module contributes, but those of the sandbox, which are the sandbox's."""
    assert _first_cells("What the log says") == {event for event in EVENTS if event.startswith("mcp:")}


def test_the_numbers() -> None:
    """Deadlines and attempts are the module's own."""
    settings, retry = McpConfig(), Retry()
    assert f"seconds, {settings.connect_timeout:g} and {settings.call_timeout:g}" in _section("Entries")
    assert (retry.attempts, retry.initial_delay, retry.max_delay) == (3, 1, 60)
    assert "three attempts, 1 to 60 seconds apart" in PAGE
    assert (retry.failures, retry.cooldown) == (5, 60)
    assert "fails five times in a row | its calls fail at once for a minute" in PAGE


def test_the_first_example_needs_nothing_else(tmp_path: Path) -> None:
    """The first server of the page starts with no Python on PATH and nothing but Amplifier installed."""
    for name, text in re.findall(r"```\w+ file=(\S+)\n(.*?)```", PAGE, flags=re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    programs, home = tmp_path / "bin", tmp_path / "home"
    for folder in (programs, home):
        folder.mkdir()
    if (bubblewrap := shutil.which("bwrap")) is not None:
        (programs / "bwrap").symlink_to(bubblewrap)
    rule = {"action": "mcp.call", "tool": "mcp_notes_*", "verdict": "allow"}
    (home / "policy.yaml").write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("amplifier"), "run", "--bundle", ".", "How many words?"],
        cwd=tmp_path,
        env={"PATH": str(programs), "HOME": str(tmp_path), "AMPLIFIER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Three words, and a test to repair.\n"), done.stderr
