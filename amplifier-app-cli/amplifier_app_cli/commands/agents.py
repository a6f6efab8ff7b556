"""`amplifier agents`: the agents that a session can delegate work to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.command_tree import Entry, LazyGroup
from amplifier_app_cli.commands.bundle.compose import compose_bundle
from amplifier_app_cli.commands.bundle.show import safe
from amplifier_app_cli.completion import AGENT, BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_foundation.bundles.agents import AgentNotFoundError, agent_declared_by, discover_agents
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.plan.prepare import Composition

_BUNDLE_OPTION: Final = click.option(
    "-b", "-B", "--bundle", "bundle", type=BUNDLE, help="Of this bundle; else of the one that runs here."
)


@click.group(cls=LazyGroup, aliases={"dirs": Entry(f"{__name__}:dirs")})
def agents() -> None:
    """List and show the agents that a session can delegate work to.

    \b
    Examples:
      amplifier agents list
      amplifier agents show amplifier:explorer
    """


@agents.command("list")
@_BUNDLE_OPTION
@json_option
@report_errors
def list_agents(bundle: str | None, as_json: bool) -> None:
    """List the agents of a bundle by the names that callers use.

    \b
    Examples:
      amplifier agents list
      amplifier agents list --bundle minimal
    """
    composition = compose_bundle(bundle)
    rows = [_row(composition, name, agent) for name, agent in _roster(composition).items()]
    cells = [(row["name"], _role_text(row["model_role"]), row["description"]) for row in rows]
    empty = "no agents: name some under `agents` in a bundle, or include amplifier:behaviors/agents"
    print_list(as_json, rows, ("NAME", "MODEL", "DESCRIPTION"), cells, empty=empty, whole=("NAME",))


@agents.command()
@click.argument("name", type=AGENT)
@_BUNDLE_OPTION
@json_option
@report_errors
def show(name: str, bundle: str | None, as_json: bool) -> None:
    """Print the agent NAME: its instructions, and what it may use.

    The part before the colon may be left out if only one agent has that name.

    \b
    Examples:
      amplifier agents show explorer
      amplifier agents show amplifier:explorer
    """
    composition = compose_bundle(bundle)
    roster = _roster(composition)
    name = _found(composition, roster, name)
    definition = safe(f"agents.{name}", roster[name])
    row = _row(composition, name, roster[name])
    if as_json:
        print_json({**row, "definition": definition})
    else:
        click.echo(plain("\n".join(_lines(row, definition))))


@click.command()
@json_option
@report_errors
def dirs(as_json: bool) -> None:
    """List the folders that are searched for agents.

    \b
    Examples:
      amplifier agents dirs
    """
    app = current_app()
    composition = compose_bundle()
    places = [("project", app.project / ".amplifier" / "agents"), ("user", app.home.path / "agents")]
    roots = composition.composed.namespaces.items()
    places += [(namespace, Path(root) / "agents") for namespace, root in roots if (Path(root) / "agents").is_dir()]
    rows: list[dict[str, Any]] = [
        {"name": name, "folder": str(folder), "exists": folder.is_dir(), "agents": list(discover_agents(folder))}
        for name, folder in places
    ]
    cells = [(row["name"], row["folder"], ", ".join(row["agents"]) if row["exists"] else "missing") for row in rows]
    print_list(as_json, rows, ("OF", "FOLDER", "AGENTS"), cells, empty="no folders")


def _roster(composition: Composition) -> dict[str, Any]:
    agents: dict[str, Any] = composition.composed.plan.get("agents") or {}
    return agents


def _found(composition: Composition, roster: Mapping[str, Any], name: str) -> str:
    """Return the whole name of an agent, as `delegate` finds it; raises AgentNotFoundError with a hint."""
    ends = [known for known in roster if known.rpartition(":")[2] == name]
    if name in roster or len(ends) == 1:
        return name if name in roster else ends[0]
    if ends:
        hint = f"say which of {', '.join(map(repr, ends))} you mean"
    elif ":" in name or not roster:
        hint = did_you_mean(name, list(roster)) if roster else "it has no agents"
    else:
        hint = did_you_mean(name, [known.rpartition(":")[2] for known in roster])
    raise AgentNotFoundError(f"the bundle {composition.bundle.name!r} has no agent {name!r}: {hint}")


def _row(composition: Composition, name: str, agent: Mapping[str, Any]) -> dict[str, Any]:
    declared = agent_declared_by(composition.layers, name)
    meta = agent.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    return {
        "name": name,
        "description": str(agent.get("description") or meta.get("description") or ""),
        "model_role": agent.get("model_role") or meta.get("model_role"),
        "where": declared[1] if declared is not None else None,
    }


def _role_text(role: Any) -> str:
    return ", ".join(map(str, role)) if isinstance(role, list) else str(role or "-")


def _lines(row: Mapping[str, Any], definition: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'name':<14}{row['name']}"
    yield f"{'description':<14}{row['description']}"
    yield f"{'named by':<14}{row['where'] or 'unknown'}"
    for key, value in definition.items():
        if key not in ("name", "description", "instruction", "meta") and value:
            yield f"{key:<14}{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
    if definition.get("instruction"):
        yield ""
        yield str(definition["instruction"])
