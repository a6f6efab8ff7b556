"""Modules open the files that their config names through `amplifier_kit.guard.files.configured_file` only.

A check of the source itself, so that a second way does not come in unseen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

#: What opens, lists or replaces by a path.
METHODS: Final = frozenset(
    ("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob", "touch")
)
OPENING: Final = frozenset(
    ("open", "fdopen", "open_private", "replace_file", "replace_unmasked", "rewrite_file", "scandir", "listdir", "walk")
)

_COMMAND: Final = "files for one command, in a folder of its own that the system makes"
_PLACE: Final = "opens what a Place, or a descriptor, has been walked to and judged"
_SEARCH: Final = "opens what the tool was asked for, below a folder that is held open and judged"
#: Files that open in their own way, and why they may.
ALLOWED: Final = {
    "hook-shell/amplifier_module_hook_shell/command.py": _COMMAND,
    "hook-shell/amplifier_module_hook_shell/hook_files.py": "hooks, in fixed folders; a project's need trust",
    "hooks-deprecation/amplifier_module_hooks_deprecation/notice.py": "lists fixed folders; ConfiguredFile reads",
    "hooks-mode/amplifier_module_hooks_mode/discovery.py": "lists folders of modes; ConfiguredFile reads",
    "hooks-notify/amplifier_module_hooks_notify/desktop.py": "the terminal of this process; no config names it",
    "hooks-notify-push/amplifier_module_hooks_notify_push/push.py": "opens a connection, no file",
    "hooks-session-naming/amplifier_module_hooks_session_naming/metadata.py": "of the session; no config names it",
    "hooks-status-context/amplifier_module_hooks_status_context/git_filters.py": ".gitattributes, no link followed",
    "hooks-status-context/amplifier_module_hooks_status_context/repository.py": "git, in a folder that was judged",
    "provider-local/amplifier_module_provider_local/gguf.py": "a model's file; its head alone is read, into no prompt",
    "tool-bash/amplifier_module_tool_bash/output.py": "new files, in a folder of the session",
    "tool-filesystem/amplifier_module_tool_filesystem/folder.py": _PLACE,
    "tool-filesystem/amplifier_module_tool_filesystem/not_found.py": _PLACE,
    "tool-mcp/amplifier_module_tool_mcp/catalogue.py": "Amplifier's own cache; no config names it",
    "tool-mcp/amplifier_module_tool_mcp/command.py": "lists caches of package runners; no config names them",
    "tool-mcp/amplifier_module_tool_mcp/process.py": _COMMAND,
    "tool-recipes/amplifier_module_tool_recipes/state.py": "recipe sessions, in the home; what moves them needs trust",
    "tool-search/amplifier_module_tool_search/fallback.py": _SEARCH,
    "tool-search/amplifier_module_tool_search/place.py": _SEARCH,
    "tool-search/amplifier_module_tool_search/search.py": _SEARCH,
    "tool-slash-command/amplifier_module_tool_slash_command/command_file.py": "lists folders; ConfiguredFile reads",
    "tool-skills/amplifier_module_tool_skills/catalogue.py": "lists folders of skills; what leads out is passed over",
    "tool-skills/amplifier_module_tool_skills/read.py": "checks on what was opened that it lies in the project",
}


def _openings(source: str) -> list[str]:
    """Return the calls that open by a path, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in OPENING or (name in METHODS and isinstance(node.func, ast.Attribute)):
                found.append(f"{node.lineno}: {ast.unparse(node)[:80]}")
    return found


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "modules").glob("*/amplifier_module_*/**/*.py")):
        yield path.relative_to(ROOT / "modules").as_posix(), path.read_text(encoding="utf-8")


def test_modules_open_files_by_one_way() -> None:
    """A module opens files by ConfiguredFile, or its source stands in the table with a reason that still holds."""
    found = {name: lines for name, source in _sources() if (lines := _openings(source))}
    unknown = {name: lines for name, lines in found.items() if name not in ALLOWED}
    assert not unknown, f"open what a config names by ConfiguredFile, or say in ALLOWED why not: {unknown}"
    assert sorted(set(ALLOWED) - set(found)) == [], "these open nothing by themselves any more: take them out"


@pytest.mark.parametrize(
    "source",
    [
        "text = path.read_text()",
        "with open(path) as file: pass",
        "number = os.open(path, os.O_RDONLY)",
        "replace_file(path, b'')",
        "number = open_private(path)",
        "names = list(folder.iterdir())",
    ],
)
def test_a_second_way_is_seen(source: str) -> None:
    """Every way to open a path that a change may add to a module is found."""
    assert _openings(source)
