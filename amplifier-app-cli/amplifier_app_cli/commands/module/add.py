"""`amplifier module add` and `remove`: modules that settings add to every session."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.completion import MODULE as MODULE_ID
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import MODULE, MODULE_SOURCE, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.records import json_option
from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.settings.scopes import find
from amplifier_foundation.settings.settings import read_settings_file
from amplifier_foundation.sources.local import find_file
from amplifier_foundation.sources.module_resolver import find_module_folder
from amplifier_foundation.sources.uri import parse_source

#: The list in settings for each type of module; bundles choose the loop and the context.
_LISTS: Final = {kind: section for section, kind in MODULE_SECTIONS.items()}


@click.command()
@click.argument("module_id", metavar="ID", type=MODULE_ID)
@click.option("-s", "--source", "source", metavar="URI", help="Where it comes from; not needed for an installed one.")
@click.option("-t", "--type", "kind", type=click.Choice(list(_LISTS)), help="Its type; by default, what its ID says.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def add(module_id: str, source: str | None, kind: str | None, editor: SettingsEditor) -> None:
    """Add the module ID to every session.

    \b
    Examples:
      amplifier module add hooks-streaming-ui
      amplifier module add tool-census --source ./modules/tool-census --project
      amplifier module add tool-web -s git+https://example.com/team/tool-web@v1
    """
    names = {"section": _LISTS[kind or _kind_of(module_id)], "name": module_id}
    if source is not None:
        editor.add(MODULE_SOURCE, written_source(editor, source), **names)
        return
    _check_installed(editor.app, module_id)
    document = read_settings_file(editor.file)
    if document is not None and find(document.data, MODULE.at(names)) is not None:
        editor.app.inform(f"{editor.file} has {module_id} already")
    else:
        editor.add(MODULE, {}, **names)


@click.command()
@click.argument("module_id", metavar="ID", type=MODULE_ID)
@scope_options
@json_option
@report_errors
@with_json_of_edits
def remove(module_id: str, editor: SettingsEditor) -> None:
    """Remove the module ID, which settings add, from every session.

    \b
    Examples:
      amplifier module remove tool-census --project
    """
    editor.remove(MODULE, *({"section": section, "name": module_id} for section in _LISTS.values()))


def written_source(editor: SettingsEditor, source: str) -> str:
    """Return a source as settings have it; raises SourceError when it is invalid or missing."""
    parsed = parse_source(source)
    if parsed.kind != "file":
        return source
    find_file(parsed, base=editor.app.project, environ=editor.app.environ)
    return editor.written_path(source) if "://" not in source else source


def _kind_of(module_id: str) -> str:
    """Return the type that an id names; raises UsageError for a type that cannot be added, and for no type."""
    words = module_id.lower().replace("_", "-").split("-")
    for word, kind in (("provider", "provider"), ("tool", "tool"), ("hooks", "hook"), ("hook", "hook")):
        if word in words:
            return kind
    if {"loop", "orchestrator", "context"} & set(words):
        raise click.UsageError(f"{module_id} is chosen by a bundle: set session.orchestrator or session.context there")
    raise click.UsageError(f"the name {module_id} does not say what type of module it is: give --type")


def _check_installed(app: App, module_id: str) -> None:
    """Raise UsageError for a module that is not installed."""
    installed = sorted(entry.name for entry in entry_points(group="amplifier.modules"))
    if module_id not in installed and find_module_folder(module_id, app.project, app.home, app.environ) is None:
        hint = did_you_mean(module_id, installed)
        raise click.UsageError(f"{module_id} is not installed: name its source with --source; {hint}")
