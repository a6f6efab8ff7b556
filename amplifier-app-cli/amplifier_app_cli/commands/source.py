"""`amplifier source`: other places for modules and bundles to come from, set in your settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from typing import Any, Final, Literal

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.commands.bundle.compose import compose_bundle, known_bundles
from amplifier_app_cli.commands.bundle.show import safe
from amplifier_app_cli.commands.module.add import written_source
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import SOURCE, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.settings.scopes import SettingNotFoundError
from amplifier_foundation.sources.module_resolver import find_module_folder
from amplifier_foundation.sources.uri import without_secrets

Kind = Literal["module", "bundle"]
_KINDS: Final[tuple[Kind, ...]] = ("module", "bundle")


@dataclass(frozen=True)
class _Override:
    """A source in settings that replaces that of a bundle."""

    kind: str
    id: str
    source: str
    scope: str
    where: str
    #: Whether no stronger scope overrides it.
    used: bool


def _kind_options(command: Any) -> Any:
    command = click.option("--bundle", "is_bundle", is_flag=True, help="ID is a bundle: its name or address.")(command)
    return click.option("--module", "is_module", is_flag=True, help="ID is a module.")(command)


@click.group(cls=LazyGroup)
def source() -> None:
    """Override where modules and bundles come from.

    \b
    Examples:
      amplifier source add tool-web ~/src/tool-web
      amplifier source add team git+https://example.com/me/team@fix --bundle
      amplifier source list
    """


@source.command()
@click.argument("name", metavar="ID")
@click.argument("uri", metavar="URI")
@_kind_options
@scope_options
@json_option
@report_errors
@with_json_of_edits
def add(name: str, uri: str, is_module: bool, is_bundle: bool, editor: SettingsEditor) -> None:
    """Take the module or bundle ID from URI instead of the source in its bundle.

    \b
    Examples:
      amplifier source add tool-web ~/src/tool-web
      amplifier source add team ./team --bundle --local
    """
    kind = _kind(editor.app, name, is_module, is_bundle)
    value = written_source(editor, uri)
    editor.add(SOURCE, value, kind=kind, name=name, source=_shown(value))


@source.command()
@click.argument("name", metavar="ID")
@_kind_options
@scope_options
@json_option
@report_errors
@with_json_of_edits
def remove(name: str, is_module: bool, is_bundle: bool, editor: SettingsEditor) -> None:
    """Remove the source of the module or bundle ID: that of its bundle applies again.

    \b
    Examples:
      amplifier source remove tool-web
    """
    kinds = [kind for kind in _KINDS if not (is_module and kind == "bundle") and not (is_bundle and kind == "module")]
    editor.remove(SOURCE, *({"kind": kind, "name": name} for kind in kinds), hint=_near(editor.app, name))


@source.command("list")
@json_option
@report_errors
def list_sources(as_json: bool) -> None:
    """List the sources in settings, and which of them apply.

    \b
    Examples:
      amplifier source list
    """
    overrides = _overrides(current_app())
    rows = [(one.kind, one.id, one.source, one.scope + ("" if one.used else " (overridden)")) for one in overrides]
    empty = "settings override no sources: see `amplifier source add`"
    print_list(as_json, [asdict(one) for one in overrides], ("KIND", "ID", "SOURCE", "SCOPE"), rows, empty=empty)


@source.command()
@click.argument("name", metavar="ID")
@json_option
@report_errors
def show(name: str, as_json: bool) -> None:
    """Print the sources of the module or bundle ID, and the file of each; the first line applies.

    \b
    Examples:
      amplifier source show tool-web
    """
    app = current_app()
    places = [{**place, "source": safe("source", place["source"])} for place in _places(app, name)]
    if not places:
        raise SettingNotFoundError(f"unknown source of {name!r}{_near(app, name)}")
    if as_json:
        print_json({"id": name, "places": places})
        return
    for place in places:
        click.echo(plain(f"{place['source']}  ({place['kind']}, {place['where']})"))


def _kind(app: App, name: str, is_module: bool, is_bundle: bool) -> Kind:
    """Return whether a name is that of a module or a bundle; raises UsageError when it could be either."""
    if is_module and is_bundle:
        raise click.UsageError("give --module or --bundle, not both")
    if is_module or is_bundle:
        return "module" if is_module else "bundle"

    if "://" in name or known_bundles(app).find(name) is not None:
        return "bundle"
    if name.startswith(("tool-", "provider-", "hook-", "hooks-", "loop-", "context-", "orchestrator-")):
        return "module"
    raise click.UsageError(f"is {name!r} a module or a bundle? Give --module or --bundle")


def _overrides(app: App) -> list[_Override]:
    editor = SettingsEditor(app)
    found: list[_Override] = []
    for kind in _KINDS:
        for name in app.settings.get(("sources", f"{kind}s")) or {}:
            places = editor.places(SOURCE.at({"kind": kind, "name": name}))
            found += [
                _Override(kind, name, _shown(place.value), place.scope, place.where, place is places[-1])
                for place in places
            ]
    return found


def _places(app: App, name: str) -> list[dict[str, Any]]:
    """Return every source of a module or bundle, the strongest first."""
    return [*_module_places(app, name), *_bundle_places(app, name)]


def _module_places(app: App, name: str) -> list[dict[str, Any]]:
    editor = SettingsEditor(app)
    found: list[dict[str, Any]] = []
    placed = find_module_folder(name, app.project, app.home, app.environ)
    if placed is not None:
        found.append(_place("folder", str(placed[0]), placed[1]))
    for key in (("overrides", name, "source"), ("sources", "modules", name)):
        found += [_place("module", place.value, place.where) for place in reversed(editor.places(key))]
    try:
        uses = compose_bundle().composed.modules
    except FoundationError as error:
        app.inform(f"note: the bundle that runs here cannot be used: {error}")
        uses = ()
    known = [place["where"] for place in found]
    found += [_place("module", use.source, use.where) for use in uses if use.module == name and use.where not in known]
    for entry in entry_points(group="amplifier.modules"):
        if entry.name == name and entry.dist is not None:
            found.append(_place("installed", f"{entry.dist.name} {entry.dist.version}", entry.value))
    return found


def _bundle_places(app: App, name: str) -> list[dict[str, Any]]:
    found = [
        _place("bundle", place.value, place.where)
        for place in reversed(SettingsEditor(app).places(SOURCE.at({"kind": "bundle", "name": name})))
    ]
    known = known_bundles(app).find(name)
    if known is not None:
        found.append(_place("bundle", known.reference, known.origin))
    return found


def _place(kind: str, source: str, where: str) -> dict[str, Any]:
    return {"kind": kind, "source": source, "where": where}


def _near(app: App, name: str) -> str:
    names = list(dict.fromkeys(one.id for one in _overrides(app)))
    return f": {did_you_mean(name, names)}" if names else ""


def _shown(uri: str) -> str:
    return without_secrets(uri)
