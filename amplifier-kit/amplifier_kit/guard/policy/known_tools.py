"""Published tools that do not say what they do, what they do, and by which other names people call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The action of each published tool, by its name. A tool that is not here is judged as `tool.<name>`, which no default
#: allows.
KNOWN_TOOLS: Final[Mapping[str, str]] = {
    "read_file": "filesystem.read",
    "grep": "filesystem.read",
    "glob": "filesystem.read",
    "write_file": "filesystem.write",
    "edit_file": "filesystem.write",
    "apply_patch": "filesystem.write",
    "bash": "process.exec",
    "web_fetch": "network.fetch",
    "web_search": "network.fetch",
    "task": "session.spawn",
    "delegate": "session.spawn",
    "todo": "tool.todo",
    "load_skill": "tool.load_skill",
}

#: What the tools of a module do, where it has several or one of another name.
ACTION_OF_MODULE: Final[Mapping[str, str]] = {
    "tool-filesystem": "filesystem.*",
    "tool-search": "filesystem.read",
    "tool-web": "network.fetch",
    "tool-mcp": "mcp.call",
    "tool-skills": "tool.load_skill",
}

#: Names that the tools have in the rules of another agent.
OF_OTHERS: Final[Mapping[str, str]] = {
    "Bash": "bash",
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "edit_file",
    "MultiEdit": "edit_file",
    "Grep": "grep",
    "Glob": "glob",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Task": "task",
}
