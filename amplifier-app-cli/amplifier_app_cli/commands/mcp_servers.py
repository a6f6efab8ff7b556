"""Find the names of the MCP servers that a run would use, without starting any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amplifier_app_cli.app import App
from amplifier_foundation.trust.store import TrustStore

_MODULE: Final = "tool-mcp"
_VARIABLE: Final = "AMPLIFIER_MCP_CONFIG"
#: Larger files are no config that a person has looked at; the module does not read them either.
_LARGEST: Final = 1 << 20


@dataclass
class NamedServers:
    """The servers that are named, each with where; and what is wrong with the files."""

    servers: dict[str, str] = field(default_factory=dict)
    #: Those of a project that is not trusted.
    untrusted: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    #: Whether the bundle has the module that would start them.
    has_module: bool = False


def named_servers(app: App, plan: Mapping[str, Any]) -> NamedServers:
    """Return the servers that the user, the project, the environment and the bundle name, the later ones in place."""
    found = NamedServers()
    _take_file(found, found.servers, app.home.path / "mcp.json")
    is_trusted = TrustStore(app.home).state(app.project).trusted
    for path in (app.project / ".mcp.json", app.project / ".amplifier" / "mcp.json"):
        _take_file(found, found.servers if is_trusted else found.untrusted, path)
    if named := app.environ.get(_VARIABLE):
        path = Path(named).expanduser()
        if not path.exists():
            found.problems.append(f"{path}: there is no such file; ${_VARIABLE} names it")
        _take_file(found, found.servers, path)
    for entry in plan.get("tools") or []:
        if (entry.get("module") if isinstance(entry, dict) else entry) == _MODULE:
            found.has_module = True
            config = entry.get("config") if isinstance(entry, dict) else None
            inline = config.get("servers") if isinstance(config, dict) else None
            _take(found.servers, inline if isinstance(inline, dict) else {}, "the bundle")
    return found


def _take_file(found: NamedServers, servers: dict[str, str], path: Path) -> None:
    if not path.is_file():
        return
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        document = json.loads(path.read_text(encoding="utf-8-sig"))
        entries = document.get("mcpServers", document.get("servers")) if isinstance(document, dict) else None
        if not isinstance(entries, dict):
            raise ValueError("it must be an object with the key `mcpServers`, which holds an object of servers")
    except (OSError, ValueError, RecursionError) as error:
        found.problems.append(f"{path}: {error}")
        return
    _take(servers, entries, str(path))


def _take(servers: dict[str, str], entries: Mapping[str, Any], origin: str) -> None:
    """Let entries take the place of earlier ones; one that is switched off takes it away."""
    for name, entry in entries.items():
        servers.pop(name, None)
        is_off = isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False)
        if not is_off:
            servers[name] = origin
