"""Gather servers from the files and settings that may name them; the later ones count."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.private_files import read_regular
from amplifier_kit.struct import Struct
from amplifier_module_tool_mcp.server_entry import ServerSpec, SpecError, read_spec

VARIABLE: Final = "AMPLIFIER_MCP_CONFIG"
_MODULE: Final = "tool-mcp"
#: The origin of servers that the config of this module names.
BUNDLE: Final = "the bundle's config"
#: A config that a person wrote is smaller.
_LARGEST: Final = 1 << 20


class Found(Struct):
    """The servers to use, by name, and what could not be used: where, why."""

    servers: dict[str, ServerSpec] = field(default_factory=dict)
    ignored: list[dict[str, str]] = field(default_factory=list)

    def ignore(self, origin: str, reason: str, code: str) -> None:
        """Note that something is left out."""
        self.ignored.append({"origin": origin, "reason": reason, "code": code})


def find_servers(
    inline: Mapping[str, Any],
    *,
    home: Path,
    project: Path | None,
    is_trusted: Callable[[], bool] | None,
    is_inline_trusted: Callable[[str], bool] | None = None,
) -> Found:
    """Return all servers that are named: by the user, the project, the environment, the bundle's own config.

    Files of a project count only when `is_trusted` returns True: they name commands to run. The same holds for the
    bundle's own config, unless `is_inline_trusted` vouches that no untrusted source contributed to it; in an app
    without trust it counts as the app's. A file that cannot be used is noted, and the others count. Raises SpecError
    for an invalid entry of the bundle's config.
    """
    found = Found()
    _take_file(found, home / "mcp.json")
    if project is not None:
        files = [path for path in (project / ".mcp.json", project / ".amplifier" / "mcp.json") if _is_there(path)]
        if files and (reason := _distrust(is_trusted)):
            for path in files:
                found.ignore(str(path), reason, "untrusted")
        else:
            for path in files:
                _take_file(found, path)
    if named := os.environ.get(VARIABLE):
        _take_file(found, Path(named).expanduser(), must_exist=True)
    specs = {name: read_spec(name, entry, BUNDLE) for name, entry in inline.items()}
    if (
        specs
        and is_trusted is not None
        and not _is_vouched_for(is_inline_trusted)
        and (reason := _distrust(is_trusted))
    ):
        found.ignore(BUNDLE, reason, "untrusted")
        return found
    for name, spec in specs.items():
        _put(found, name, spec)
    return found


def _is_vouched_for(is_trusted: Callable[[str], bool] | None) -> bool:
    try:
        return is_trusted is not None and plain_result(is_trusted(_MODULE)) is True
    except Exception:  # a failure vouches for nothing; the trust in the project decides
        return False


def _is_there(path: Path) -> bool:
    """Return whether a file exists; an empty folder in its place is a placeholder of the sandbox."""
    return os.path.lexists(path) and not path.is_dir()


def _distrust(is_trusted: Callable[[], bool] | None) -> str:
    """Return why files of the project do not count; empty when they do."""
    if is_trusted is None:
        return "it is unknown whether this project is trusted, so its servers are not started"
    try:
        trusted = plain_result(is_trusted())
    except Exception as error:
        return f"cannot find out whether this project is trusted ({error}), so its servers are not started"
    return "" if trusted is True else "this project is not trusted, so its servers are not started"


def _take_file(found: Found, path: Path, *, must_exist: bool = False) -> None:
    try:
        text = _read(path)
        entries = None if text is None else _entries(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        found.ignore(str(path), reason, "invalid_config")
        return
    if entries is None:
        if must_exist:
            found.ignore(str(path), f"there is no such file; ${VARIABLE} names it", "invalid_config")
        return
    for name, entry in entries.items():
        try:
            _put(found, name, read_spec(name, entry, str(path)))
        except SpecError as error:
            found.ignore(str(path), str(error), "invalid_config")


def _put(found: Found, name: str, spec: ServerSpec | None) -> None:
    """Let an entry take the place of an earlier one; one that is switched off takes it away."""
    found.servers.pop(name, None)
    if spec is not None:
        found.servers[name] = spec


def _read(path: Path) -> str | None:
    """Return the text of a file, None when it does not exist. Raises OSError or ValueError."""
    try:
        return read_regular(path, _LARGEST).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _entries(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    entries = document.get("mcpServers", document.get("servers")) if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise ValueError("it must be an object with the key `mcpServers`, which holds an object of servers")
    return entries
