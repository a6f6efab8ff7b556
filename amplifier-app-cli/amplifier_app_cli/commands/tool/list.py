"""`amplifier module tools`: what an agent of a bundle can do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from amplifier_app_cli.commands.bundle.compose import compose_bundle, finished
from amplifier_app_cli.commands.tool.mount import find_tool, mounted_tools
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_app_cli.ui.say import show_warnings
from amplifier_app_cli.ui.streams import guarded_stdout
from amplifier_foundation.bundles.plan_modules import all_modules
from amplifier_foundation.sources.uri import without_secrets

Function = TypeVar("Function", bound=Callable[..., Any])


def _bundle_options(command: Function) -> Function:
    command = click.option("--trust", is_flag=True, help="Trust what this project's files name, this once.")(command)
    return click.option(
        "-b", "-B", "--bundle", "bundle", type=BUNDLE, help="Of this bundle; else of the one that runs here."
    )(command)


@click.command()
@click.argument("name", required=False)
@_bundle_options
@json_option
@report_errors
def tools(name: str | None, bundle: str | None, trust: bool, as_json: bool) -> None:
    """List the tools of a bundle, by the names that a model calls them; or show what the tool NAME does and takes.

    Their modules are loaded, and nothing of them is run. `amplifier module invoke` runs a tool.

    \b
    Examples:
      amplifier module tools
      amplifier module tools read_file
      amplifier module tools --bundle minimal --json
    """
    if name is None:
        _print_list(bundle, trust, as_json)
    else:
        _print_one(name, bundle, trust, as_json)


@click.command("list")
@_bundle_options
@click.option("-m", "--modules", "is_of_modules", is_flag=True, help="List their modules instead; nothing is loaded.")
@json_option
@report_errors
def list_tools(bundle: str | None, trust: bool, is_of_modules: bool, as_json: bool) -> None:
    """List the tools of a bundle: the same as `amplifier module tools`.

    \b
    Examples:
      amplifier module tools
    """
    if is_of_modules:
        _print_modules(bundle, as_json)
    else:
        _print_list(bundle, trust, as_json)


def _print_modules(bundle: str | None, as_json: bool) -> None:
    """Print the modules that a bundle has for tools, each with its source."""
    plan = compose_bundle(bundle).composed.plan
    modules = [
        {"module": one.module, "source": None if one.source is None else without_secrets(one.source)}
        for one in all_modules(plan)
        if one.section == "tools"
    ]
    rows = [(one["module"], one["source"] or "installed with the program") for one in modules]
    print_list(as_json, modules, ("MODULE", "SOURCE"), rows, empty="the bundle has no tools", whole=("MODULE",))


def _print_list(bundle: str | None, trust: bool, as_json: bool) -> None:
    tools = _described(bundle, trust)
    rows = [(one["name"], one["action"], one["description"]) for one in tools]
    empty = "the bundle has no tools: add one with `amplifier module add`, or name some in the bundle"
    print_list(as_json, tools, ("NAME", "NEEDS", "DESCRIPTION"), rows, empty=empty, whole=("NAME",))


@click.command()
@click.argument("name")
@_bundle_options
@click.option("-m", "--module", "is_module", is_flag=True, help="NAME is a module: show all of its tools.")
@json_option
@report_errors
def info(name: str, bundle: str | None, trust: bool, is_module: bool, as_json: bool) -> None:
    """Show what the tool NAME does and takes: the same as `amplifier module tools NAME`.

    \b
    Examples:
      amplifier module tools read_file
    """
    if not is_module:
        _print_one(name, bundle, trust, as_json)
        return
    tools = _described(bundle, trust, name)
    if as_json:
        print_json(tools)
    else:
        click.echo("\n\n".join(_text(tool) for tool in tools))


def _print_one(name: str, bundle: str | None, trust: bool, as_json: bool) -> None:
    """Print what a tool does, what it takes, and the permission it needs."""
    tools = {one["name"]: one for one in _described(bundle, trust)}
    found: dict[str, Any] = find_tool(tools, name)
    if as_json:
        print_json(found)
    else:
        click.echo(_text(found))


def _text(found: dict[str, Any]) -> str:
    """Return the description of a tool for people."""
    lines = [
        f"{label:<14}{found[key]}" for label, key in (("name", "name"), ("needs", "action"), ("package", "package"))
    ]
    schema = found["input_schema"]
    required = schema.get("required") or []
    for key, field in (schema.get("properties") or {}).items():
        kind = field.get("type", "any") if isinstance(field, dict) else "any"
        about = field.get("description", "") if isinstance(field, dict) else ""
        lines.append(f"{'takes':<14}{key} ({kind}{', required' if key in required else ''}) {about}".rstrip())
    return plain("\n".join([*lines, "", found["description"]]))


def _described(bundle: str | None, trust: bool, module: str | None = None) -> list[dict[str, Any]]:
    """Return the descriptions of the tools of a bundle, or of one module; what they print is not a result."""
    show_warnings()
    with guarded_stdout():
        return finished(_mounted(bundle, trust, module))


async def _mounted(bundle: str | None, trust: bool, module: str | None) -> list[dict[str, Any]]:
    async with mounted_tools(bundle, trust=trust, module=module) as tools:
        return [_facts(name, tool) for name, tool in sorted(tools.items())]


def _facts(name: str, tool: Any) -> dict[str, Any]:
    schema = getattr(tool, "input_schema", None)
    action = getattr(tool, "action", None)
    return {
        "name": name,
        "description": str(getattr(tool, "description", "") or ""),
        "action": action if isinstance(action, str) and action else f"tool.{name}",
        "package": type(tool).__module__.partition(".")[0],
        # As a model gets it: `str` converts what JSON cannot represent.
        "input_schema": json.loads(json.dumps(schema, default=str)) if isinstance(schema, dict) else {},
    }
