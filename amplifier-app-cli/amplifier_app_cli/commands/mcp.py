"""`amplifier mcp`: list, show, add, remove and test MCP servers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished
from amplifier_app_cli.completion import MCP_SERVER
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.mcp.config import (
    Found,
    McpServerError,
    Server,
    add_server,
    find_servers,
    remove_server,
)
from amplifier_app_cli.mcp.trial import Offered, Trial, try_servers
from amplifier_app_cli.ui.layout import counted, duration, terminal_width, wrap_text
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_app_cli.ui.say import complain
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.config_trust import is_config_trusted
from amplifier_foundation.plan.prepare import Composition
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.settings.secrets import masked
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.named_tuple import NamedTuple

Function = TypeVar("Function", bound=Callable[..., Any])
FileScope = Literal["user", "project"]

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
#: Why a session does not use an entry.
_UNUSED: Final = {
    "disabled": "its entry says so",
    "untrusted": "the project is not trusted: `amplifier trust`",
    "replaced": "a later entry of the same name counts",
}


@click.group(cls=LazyGroup)
def mcp() -> None:
    """Work with MCP servers: programs and services whose tools a session can use.

    They are named in mcp.json of your home, in .mcp.json or .amplifier/mcp.json of a project, and in bundles.

    \b
    Examples:
      amplifier mcp add time -- uvx mcp-server-time
      amplifier mcp add issues --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${ISSUES_TOKEN}'
      amplifier mcp list
      amplifier mcp test time
    """


class _Session(NamedTuple):
    """What a session here would be made of, and the servers that it would know."""

    composition: Composition
    found: Found

    @classmethod
    def here(cls, app: App) -> _Session:
        composition = compose_bundle()
        prepared = Prepared(composition.composed, Home(app.home.path), app.project, layers=composition.layers)
        is_trusted = TrustStore(app.home).state(app.project).trusted
        trusted = is_config_trusted(prepared, "tool-mcp", is_trusted=is_trusted)
        found = find_servers(app, composition.composed.plan, is_plan_trusted=trusted)
        app.warn(found.problems, "note")
        return cls(composition, found)

    def tried(self, app: App, names: list[str], *, start: bool) -> dict[str, Trial]:
        """Start these servers; what they and their module print meanwhile is not a result."""
        if not names:
            return {}
        with guarded_stdout():
            trials = finished(try_servers(app, self.composition, self.found, names, start=start))
        return {trial.server: trial for trial in trials}

    def note_missing_module(self, app: App) -> None:
        if self.found.servers and not self.found.has_module:
            app.inform(
                "note: the bundle that runs here has no tool-mcp, so its sessions use no servers: include "
                "`amplifier:behaviors/mcp` in it"
            )


@mcp.command("list")
@click.option("--cached", "is_cached", is_flag=True, help="Start no server: show the tools that it had last time.")
@json_option
@report_errors
def list_servers(is_cached: bool, as_json: bool) -> None:
    """List the servers that a session here would use: their state and their tools.

    Each is started (or reached) once, side by side, and ended again.

    \b
    Examples:
      amplifier mcp list
      amplifier mcp list --cached --json
    """
    app = current_app()
    session = _Session.here(app)
    names = list(dict.fromkeys(one.name for one in session.found.servers if one.state == "enabled"))
    if names and not is_cached:
        app.inform(f"starting {counted(len(names), 'server')}: {', '.join(names)}")
    trials = session.tried(app, names, start=not is_cached)
    shown = [one for one in session.found.servers if one.state != "replaced"]
    if as_json:
        print_json([_record(one, trials.get(one.name) if one.state == "enabled" else None) for one in shown])
        return
    if not shown:
        app.inform("no MCP servers: `amplifier mcp add NAME -- COMMAND` adds one")
        return
    rows = []
    for one in shown:
        trial = trials.get(one.name) if one.state == "enabled" else None
        rows.append((one.name, _state(one, trial), len(trial.tools) if trial is not None else "-", one.how, one.origin))
    print_table(("SERVER", "STATE", "TOOLS", "COMMAND", "FROM"), rows, whole=("SERVER",))
    for name, trial in trials.items():
        if trial.tools:
            click.echo(plain(f"{name}: {', '.join(tool.name for tool in trial.tools)}"))
        if trial.reason:
            app.inform(f"{name}: {trial.explanation}")
    session.note_missing_module(app)


@mcp.command()
@click.argument("name", type=MCP_SERVER)
@json_option
@report_errors
def show(name: str, as_json: bool) -> None:
    """Show the server NAME: its entry, the file that has it, and the tools it had last time. It is not started.

    \b
    Examples:
      amplifier mcp show time
    """
    app = current_app()
    session = _Session.here(app)
    server = session.found.named(name)
    trials = session.tried(app, [name] if server.state == "enabled" else [], start=False)
    trial = trials.get(name)
    if as_json:
        print_json(_record(server, trial))
        return
    for line in _lines(server, trial):
        click.echo(plain(line))
    session.note_missing_module(app)


@mcp.command()
@click.argument("name", type=MCP_SERVER)
@json_option
@report_errors
def test(name: str, as_json: bool) -> None:
    """Start the server NAME as a session does, in its sandbox, and list its tools; exit with 1 if that fails.

    \b
    Examples:
      amplifier mcp test time
      amplifier mcp test time --json
    """
    app = current_app()
    session = _Session.here(app)
    server = session.found.named(name)
    if server.state != "enabled":
        raise McpServerError(f"the server {name!r} ({server.origin}) is {server.state}: {_UNUSED[server.state]}")
    trial = session.tried(app, [name], start=True)[name]
    if as_json:
        print_json(_record(server, trial))
    elif trial.state == "connected":
        took = f" in {duration(trial.duration_ms / 1000)}" if trial.duration_ms is not None else ""
        sandbox = f", sandbox {trial.sandbox}" if trial.sandbox else ""
        click.echo(plain(f"{name}: connected{took}, {counted(len(trial.tools), 'tool')}{sandbox}"))
        for line in _tool_lines(trial.tools):
            click.echo(plain(line))
        session.note_missing_module(app)
    if trial.state != "connected":
        sys.exit(complain(exits.FAILURE, f"the MCP server {name!r} ({server.origin}) failed: {trial.explanation}"))


def _scope_options(command: Function) -> Function:
    for option in (
        click.option(
            "--project", "scope", flag_value="project", help="In .mcp.json of this project, for all its users."
        ),
        click.option("--user", "scope", flag_value="user", default="user", help="In your home, the default."),
    ):
        command = option(command)
    return command


@mcp.command()
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARG]...]")
@click.option("--url", help="The address of a server that runs already (streamable HTTP).")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="KEY",
    help="Give the server this variable, by its name alone (may be repeated).",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: ${KEY}'",
    help="Send this header; its value names a variable (may be repeated).",
)
@click.option("--network", is_flag=True, help="Let the sandbox give it the network.")
@click.option("--required", is_flag=True, help="Send no request to the model without this server.")
@_scope_options
@json_option
@report_errors
def add(
    name: str,
    command: tuple[str, ...],
    url: str | None,
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    network: bool,
    required: bool,
    scope: FileScope,
    as_json: bool,
) -> None:
    """Add the server NAME: a COMMAND to start, or an address. It is not started; `amplifier mcp test` does that.

    Values of keys are never written into the file: it refers to a variable, which `amplifier keys set` can store.

    \b
    Examples:
      amplifier mcp add time -- uvx mcp-server-time
      amplifier mcp add files --project -- npx -y @modelcontextprotocol/server-filesystem .
      amplifier mcp add forge --env FORGE_TOKEN --network -- forge-mcp --read-only
      amplifier mcp add issues --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${ISSUES_TOKEN}'
    """
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"invalid name {name!r}: use letters, digits, '-', '_' and '.'", param_hint="NAME")
    if bool(command) is bool(url):
        raise click.UsageError("give a command after `--`, or --url")
    if url and (network or variables):
        raise click.UsageError("--env and --network are for a command: a server at an address gets --header")
    if command and headers:
        raise click.UsageError("--header is for --url: a command gets --env")
    entry: dict[str, Any]
    if url:
        if not url.startswith(("http://", "https://")):
            raise click.BadParameter(f"{url!r} is not an http:// or https:// address", param_hint="--url")
        entry = {"type": "http", "url": url, "headers": dict(map(_header, headers))}
    else:
        entry = {"command": command[0], "args": list(command[1:]), "env": dict(map(_variable, variables))}
        entry |= {"sandbox": {"network": True}} if network else {}
    entry |= {"required": True} if required else {}
    entry = {key: value for key, value in entry.items() if value not in ([], {})}
    app = current_app()
    path = add_server(app, scope, name, entry)
    if as_json:
        print_json({"name": name, "scope": scope, "file": str(path), "entry": entry})
    app.inform(f"{name} is in {path}; try it: `amplifier mcp test {name}`")
    if scope == "project" and not TrustStore(app.home).state(app.project).trusted:
        app.inform("note: the project is not trusted, so its servers are not started: see `amplifier trust`")
    for variable in variables:
        if variable not in app.environ and variable not in app.key_store().load():
            app.inform(f"note: {variable} is not set: store it with `amplifier keys set {variable}`")


@mcp.command()
@click.argument("name", type=MCP_SERVER)
@_scope_options
@json_option
@report_errors
def remove(name: str, scope: FileScope, as_json: bool) -> None:
    """Remove the server NAME from mcp.json of your home, or with --project from the project's file.

    \b
    Examples:
      amplifier mcp remove time
      amplifier mcp remove files --project
    """
    from pathlib import Path

    app = current_app()
    found = find_servers(app, {})
    server = next((one for one in found.servers if one.name == name and one.scope == scope), None)
    if server is None:
        other = found.named(name)
        hint = "add --project" if other.scope == "project" else "leave out --project" if other.scope == "user" else ""
        raise McpServerError(f"{name!r} is in {other.origin}: {hint or 'remove it there'}")
    remove_server(app, Path(server.origin), scope, name)
    if as_json:
        print_json({"name": name, "scope": scope, "file": server.origin})
    app.inform(f"{name} is removed from {server.origin}")


def _variable(text: str) -> tuple[str, str]:
    """Return the entry for a variable; raises BadParameter for a value, which would be written into the file."""
    name, equals, value = text.partition("=")
    if equals and value != f"${{{name}}}":
        raise click.BadParameter(
            f"give the name alone, as in `--env {name or 'KEY'}`: a value would be written into the file. "
            f"`amplifier keys set {name or 'KEY'}` stores it",
            param_hint="--env",
        )
    if not _VARIABLE.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not the name of a variable", param_hint="--env")
    return name, f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not name or not colon or not value:
        raise click.BadParameter(f"{text!r} is not of the form 'NAME: VALUE'", param_hint="--header")
    if "${" not in value:
        raise click.BadParameter(
            f"the value of {name} would be written into the file: refer to a variable, as in '{name}: ${{KEY}}', and "
            "store it with `amplifier keys set KEY`",
            param_hint="--header",
        )
    return name, value


def _state(server: Server, trial: Trial | None) -> str:
    return trial.state if trial is not None else server.state


def _record(server: Server, trial: Trial | None) -> dict[str, Any]:
    return {
        "name": server.name,
        "state": _state(server, trial),
        "command": server.how,
        "scope": server.scope,
        "from": server.origin,
        "entry": _safe(server.entry),
        "tools": [tool._asdict() for tool in trial.tools] if trial is not None else [],
        "reason": trial.reason if trial is not None else _UNUSED.get(server.state),
        "advice": trial.advice if trial is not None else None,
        "code": trial.code if trial is not None else None,
        "duration_ms": trial.duration_ms if trial is not None else None,
        "sandbox": trial.sandbox if trial is not None else None,
    }


def _safe(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as it may be shown: of `env` and `headers` only references to variables."""
    shown: dict[str, Any] = masked((), dict(entry))
    for key in ("env", "headers"):
        values = shown.get(key)
        if isinstance(values, Mapping):
            shown[key] = {name: value if "${" in str(value) else "[hidden]" for name, value in values.items()}
    return shown


def _lines(server: Server, trial: Trial | None) -> Iterator[str]:
    unused = _UNUSED.get(server.state)
    yield f"{'server':<14}{server.name}"
    yield f"{'state':<14}{server.state}{f': {unused}' if unused else ''}"
    yield f"{'from':<14}{server.origin}"
    yield f"{'command':<14}{server.how}"
    for key, value in _safe(server.entry).items():
        if key not in ("command", "args", "url", "type"):
            yield f"{key:<14}{value}"
    if trial is not None:
        known = counted(len(trial.tools), "tool") if trial.tools else f"unknown: `amplifier mcp test {server.name}`"
        yield f"{'tools':<14}{known}"
        yield from _tool_lines(trial.tools)


def _tool_lines(tools: tuple[Offered, ...]) -> Iterator[str]:
    """Yield each tool with the first line of its description, which fits a terminal."""
    width = (terminal_width() or 200) - 2
    for tool in tools:
        first = tool.description.strip().split("\n")[0]
        yield f"  {wrap_text(f'{tool.name}: {first}' if first else tool.name, width)[0]}"
