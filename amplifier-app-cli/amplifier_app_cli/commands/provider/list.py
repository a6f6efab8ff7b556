"""`amplifier provider list` and `manage`: what there is."""

from __future__ import annotations

from typing import Any

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.providers.choice import Choice, ProviderChoiceError, is_in_settings
from amplifier_app_cli.providers.known import KNOWN, KnownProvider, is_installed, short_name
from amplifier_app_cli.providers.settings import ProviderPlan, provider_plan
from amplifier_app_cli.ui.layout import table, terminal_width
from amplifier_app_cli.ui.records import json_option, print_json


@click.command(name="list")
@json_option
@report_errors
def list_(as_json: bool) -> None:
    """Print the known providers and the state of each.

    \b
    Examples:
      amplifier provider list
      amplifier provider list --json

    That is: whether its module is installed, whether its key is set, whether settings or the bundle configure it, and
    which one a run would use.
    """
    _print(current_app(), as_json)


@click.command()
@json_option
@report_errors
def manage(as_json: bool) -> None:
    """Print the providers, and the commands that change them.

    \b
    Examples:
      amplifier provider manage
    """
    app = current_app()
    _print(app, as_json)
    for hint in (
        "amplifier provider add NAME       configure a provider",
        "amplifier provider set NAME       change its model, priority or address",
        "amplifier provider test NAME      send it one tiny request",
        "amplifier provider models NAME    print its models",
        "amplifier provider remove NAME    take it out of the settings",
        "amplifier keys set VARIABLE       keep its key",
    ):
        app.inform(hint)


def _print(app: App, as_json: bool) -> None:
    found = provider_plan(app)
    choice, problem = _choice(app, found)
    records = _records(app, found, choice)
    app.warn([*found.warnings, *([problem] if problem else [])])
    if as_json:
        print_json(records)
        return

    width = terminal_width()
    # Leave out module names that only repeat the provider's.
    with_module = width is None or any(record["module"] != f"provider-{record['id']}" for record in records)
    rows = [
        (
            record["id"],
            *([record["module"]] if with_module else []),
            "yes" if record["installed"] else "no",
            _key_state(record),
            _configured_text(record, is_short=not with_module),
            "yes" if record["used"] else "",
        )
        for record in records
    ]
    headings = ("PROVIDER", *(["MODULE"] if with_module else []), "INSTALLED", "KEY", "CONFIGURED", "USED")
    click.echo(table(headings, rows, width, whole=("PROVIDER",)))
    if choice is not None:
        app.inform(choice.line)


def _choice(app: App, found: ProviderPlan) -> tuple[Choice | None, str | None]:
    try:
        return found.choose(app), None
    except ProviderChoiceError as error:
        return None, str(error)


def _records(app: App, found: ProviderPlan, choice: Choice | None) -> list[dict[str, Any]]:
    """Return the known providers in their order, then the others that the plan has."""
    entries = [entry for entry in found.plan.get("providers") or [] if isinstance(entry, dict) and entry.get("module")]
    modules = {known.module for known in KNOWN}
    others = dict.fromkeys(str(entry["module"]) for entry in entries if entry["module"] not in modules)
    listed = [*KNOWN, *(KnownProvider(short_name(module), module, module) for module in others)]
    return [
        {
            "id": known.id,
            "module": known.module,
            "title": known.title,
            "installed": is_installed(known.module),
            "keys": list(known.variables),
            "key_found": list(known.found(found.environ)),
            "key_missing": list(known.missing(found.environ)),
            "configured": [_configured(app, entry) for entry in entries if entry["module"] == known.module],
            "used": choice is not None and choice.module == known.module,
        }
        for known in listed
    ]


def _configured(app: App, entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": entry.get("id") or entry["module"],
        "where": "settings" if is_in_settings(entry, app.settings) else "bundle",
        "model": (entry.get("config") or {}).get("default_model"),
    }


def _configured_text(record: dict[str, Any], *, is_short: bool) -> str:
    names = [(str(entry["name"]), entry["where"]) for entry in record["configured"]]
    prefix = "provider-" if is_short else ""
    return ", ".join(f"{name.removeprefix(prefix)} ({where})" for name, where in names) or "no"


def _key_state(record: dict[str, Any]) -> str:
    if not record["keys"]:
        return "not needed"
    return " + ".join(record["key_found"]) or f"no ({' + '.join(record['key_missing'])})"
