"""The MCP servers that files name: find them, and add and remove their entries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.files import locked, rewrite_file
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App

#: The module that starts servers.
MODULE: Final = "tool-mcp"
VARIABLE: Final = "AMPLIFIER_MCP_CONFIG"
#: Larger files are no config that a person has looked at; the module does not read them either.
_LARGEST: Final = 1 << 20

Scope = Literal["user", "project", "environment", "bundle"]
State = Literal["enabled", "disabled", "untrusted", "replaced"]


class McpServerError(FoundationError):
    """No entry of that name exists, or one exists already."""

    code = "mcp_server"


class McpServerUnknownError(McpServerError):
    """No file names this server."""

    code = "mcp_server_not_found"


class McpFileError(FoundationError):
    """A file with servers cannot be read or written."""

    code = "mcp_file"


class Server(NamedTuple):
    """One entry: the server it describes, and whether a session would use it."""

    name: str
    entry: Mapping[str, Any]
    scope: Scope
    #: The file that names it, or `the bundle`.
    origin: str
    state: State = "enabled"

    @property
    def how(self) -> str:
        """Return, for a person, the command or the address; never what an `env` or a header holds."""
        if url := self.entry.get("url"):
            from amplifier_foundation.sources.uri import without_secrets

            return without_secrets(str(url))
        import shlex

        arguments = self.entry.get("args")
        return shlex.join(
            [str(self.entry.get("command") or "?"), *map(str, arguments if isinstance(arguments, list) else [])]
        )


class Found(NamedTuple):
    """All entries, the weakest first, and the problems of their files."""

    servers: tuple[Server, ...]
    problems: tuple[str, ...]
    #: Whether the bundle has the module that starts servers.
    has_module: bool

    def named(self, name: str) -> Server:
        """Return the entry of a server that counts, else the last one; raises McpServerUnknownError with a hint."""
        entries = [server for server in self.servers if server.name == name]
        if not entries:
            names = list(dict.fromkeys(server.name for server in self.servers))
            hint = did_you_mean(name, names) if names else "`amplifier mcp add NAME -- COMMAND` adds one"
            raise McpServerUnknownError(f"no file names the MCP server {name!r}: {hint}")
        return next((one for one in entries if one.state != "replaced"), entries[-1])


def find_servers(app: App, plan: Mapping[str, Any], *, is_plan_trusted: bool = True) -> Found:
    """Return the servers that the user, the project, the environment and the plan name, the weakest first.

    Of entries with the same name only the last one counts. Those of an untrusted project count neither way;
    `is_plan_trusted` says whether the plan's do.
    """
    found: list[Server] = []
    problems: list[str] = []

    def take(path: Path, scope: Scope, state: State = "enabled") -> None:
        try:
            entries = _read(path)
        except McpFileError as error:
            problems.append(str(error))
            return
        found.extend(
            Server(name, _mapping(entry), scope, str(path), _state(entry, state)) for name, entry in entries.items()
        )

    take(file_of(app, "user"), "user")
    is_trusted = TrustStore(app.home).state(app.project).trusted
    for path in _project_files(app):
        take(path, "project", "enabled" if is_trusted else "untrusted")
    if named := app.environ.get(VARIABLE):
        path = Path(named).expanduser()
        if not path.exists():
            problems.append(f"{path}: there is no such file; ${VARIABLE} names it")
        take(path, "environment")
    has_module = False
    plan_state: State = "enabled" if is_plan_trusted else "untrusted"
    for tool in plan.get("tools") or []:
        if (tool.get("module") if isinstance(tool, dict) else tool) == MODULE:
            has_module = True
            config = tool.get("config") if isinstance(tool, dict) else None
            inline = config.get("servers") if isinstance(config, dict) else None
            for name, entry in (inline if isinstance(inline, dict) else {}).items():
                found.append(Server(name, _mapping(entry), "bundle", "the bundle", _state(entry, plan_state)))
    return Found(tuple(_with_replaced(found)), tuple(problems), has_module)


def _with_replaced(found: list[Server]) -> Iterator[Server]:
    last = {server.name: number for number, server in enumerate(found) if server.state != "untrusted"}
    for number, server in enumerate(found):
        is_weaker = server.state != "untrusted" and last[server.name] != number
        yield server._replace(state="replaced") if is_weaker else server


def _state(entry: Any, state: State) -> State:
    is_off = isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False)
    return "disabled" if is_off and state == "enabled" else state


def _mapping(entry: Any) -> Mapping[str, Any]:
    return entry if isinstance(entry, dict) else {}


def _project_files(app: App) -> tuple[Path, Path]:
    return app.project / ".mcp.json", app.project / ".amplifier" / "mcp.json"


def file_of(app: App, scope: Literal["user", "project"]) -> Path:
    """Return the file that entries of a scope are written to: of a project, the one that it has already."""
    if scope == "user":
        return app.home.path / "mcp.json"
    shared, own = _project_files(app)
    return own if own.exists() and not shared.exists() else shared


def _read(path: Path) -> dict[str, Any]:
    """Return the entries of a file, none if it is missing; raises McpFileError."""
    if not path.is_file():
        return {}
    return _entries(path, _document(path))


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        document = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(document, dict):
            raise ValueError("it must be an object with the key `mcpServers`, which holds an object of servers")
    except (OSError, ValueError, RecursionError) as error:
        raise McpFileError(f"{path}: {error}") from error
    return document


def _entries(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    entries = document.get("mcpServers", document.get("servers"))
    if not isinstance(entries, dict):
        raise McpFileError(f"{path}: it must be an object with the key `mcpServers`, which holds an object of servers")
    return entries


# -- editing --


def add_server(app: App, scope: Literal["user", "project"], name: str, entry: Mapping[str, Any]) -> Path:
    """Add an entry to the file of a scope, and return the file; other entries and keys stay.

    A trusted project stays trusted: the user made this change. Raises McpServerError if the file names this server
    already, and McpFileError.
    """
    path = file_of(app, scope)
    with _edited(app, scope, path) as entries:
        if name in entries:
            raise McpServerError(
                f"{path} names the server {name!r} already: `amplifier mcp remove {name}` takes it out"
            )
        entries[name] = dict(entry)
    return path


def remove_server(app: App, path: Path, scope: Literal["user", "project"], name: str) -> None:
    """Remove an entry from a file; raises McpFileError."""
    with _edited(app, scope, path) as entries:
        entries.pop(name, None)


@contextmanager
def _edited(app: App, scope: str, path: Path) -> Iterator[dict[str, Any]]:
    """Give the entries of a file, and write them if they were changed."""
    trust = TrustStore(app.home)
    before = trust.state(app.project) if scope == "project" else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not beside the file, which may be in a repository.
        with locked(app.home.path / "mcp.json.lock"):
            document = _document(path) if path.exists() else {"mcpServers": {}}
            document.setdefault("mcpServers" if "servers" not in document else "servers", {})
            was = json.dumps(document)
            yield _entries(path, document)
            if json.dumps(document) == was:
                return
            rewrite_file(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise McpFileError(f"{path}: cannot be written: {error.strerror or error}") from error
    # Changes that someone else made to this file before are not accepted along with it.
    if before is not None and before.problem is None and path.relative_to(app.project).as_posix() not in before.changed:
        trust.accept(app.project, path)
