"""`amplifier source`: other places for modules and bundles to come from, set in your settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.scope_options import ScopeChoice, scope_options
from amplifier_app_cli.ui.records import format_option, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["modules", "bundles"]
_KINDS: Final[tuple[Kind, ...]] = ("modules", "bundles")


@dataclass(frozen=True)
class _Override:
    """One place that takes the place of another."""

    kind: str
    id: str
    source: str
    scope: str
    where: str
    #: Whether it counts: a stronger scope may say something else.
    used: bool


def _kind_options(command: Any) -> Any:
    command = click.option("--bundle", "is_bundle", is_flag=True, help="ID is a bundle: its name or address.")(command)
    return click.option("--module", "is_module", is_flag=True, help="ID is a module.")(command)


@click.group()
def source() -> None:
    """Take modules and bundles from other places than their bundles say.

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
@told
def add(name: str, uri: str, is_module: bool, is_bundle: bool, where: ScopeChoice) -> None:
    """Take the module or bundle ID from URI, wherever it is named.

    \b
    Examples:
      amplifier source add tool-web ~/src/tool-web
      amplifier source add team ./team --bundle --local
    """
    from amplifier_app_cli.commands.bundle.places import overruled
    from amplifier_app_cli.commands.module.add import written_source
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import set_value

    app = current_app()
    kind = _kind(app, name, is_module, is_bundle)
    written = written_source(app, where, uri)
    edit = change_settings(app, where, lambda path, keys: set_value(path, ("sources", kind, name), written, keys))
    app.inform(f"the {kind.removesuffix('s')} {name} comes from {_shown(written)} ({edit.path})")
    stronger = overruled(app, where, "sources", kind, name)
    if stronger is not None:
        app.inform(f"note: here it comes from elsewhere: {stronger} counts more")


@source.command()
@click.argument("name", metavar="ID")
@_kind_options
@scope_options
@told
def remove(name: str, is_module: bool, is_bundle: bool, where: ScopeChoice) -> None:
    """Take the module or bundle ID from where its bundle says again.

    \b
    Examples:
      amplifier source remove tool-web
    """
    from amplifier_app_cli.commands.bundle.places import elsewhere
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.scopes import SettingsError

    app = current_app()
    kinds = [kind for kind in _KINDS if not (is_module and kind == "bundles") and not (is_bundle and kind == "modules")]
    for kind in kinds:
        edit = change_settings(app, where, _without(kind, name))
        if edit.changed:
            app.inform(f"the {kind.removesuffix('s')} {name} comes from where its bundle says again ({edit.path})")
            return
    others = "".join(elsewhere(app, "sources", kind, name) for kind in kinds)
    raise SettingsError(f"{where.file(app)} has no source for {name!r}{others or _near(app, name)}")


@source.command("list")
@format_option
@told
def list_sources(output_format: str) -> None:
    """List all places that settings name, and which of them count.

    \b
    Examples:
      amplifier source list
    """
    from amplifier_app_cli.ui.table import table, terminal_width

    app = current_app()
    overrides = _overrides(app)
    if output_format == "json":
        print_json([asdict(one) for one in overrides])
    elif not overrides:
        app.inform("nothing is taken from elsewhere: see `amplifier source add`")
    else:
        rows = [(one.kind, one.id, one.source, one.scope + ("" if one.used else " (overruled)")) for one in overrides]
        click.echo(table(("KIND", "ID", "SOURCE", "SCOPE"), rows, terminal_width()))


@source.command()
@click.argument("name", metavar="ID")
@format_option
@told
def show(name: str, output_format: str) -> None:
    """Print where the module or bundle ID comes from, and who says so; the first line counts.

    \b
    Examples:
      amplifier source show tool-web
    """
    from amplifier_app_cli.commands.bundle.show import safe
    from amplifier_app_cli.ui.plain import plain
    from amplifier_foundation.settings.scopes import SettingsError

    app = current_app()
    places = [{**place, "source": safe("source", place["source"])} for place in _places(app, name)]
    if not places:
        raise SettingsError(f"nothing says where {name!r} comes from{_near(app, name)}")
    if output_format == "json":
        print_json({"id": name, "places": places})
        return
    for place in places:
        click.echo(plain(f"{place['source']}  ({place['kind']}, {place['where']})"))


def _kind(app: App, name: str, is_module: bool, is_bundle: bool) -> Kind:
    """Return what a name is the name of; raises UsageError when that cannot be told."""
    if is_module and is_bundle:
        raise click.UsageError("give --module or --bundle, not both")
    if is_module or is_bundle:
        return "modules" if is_module else "bundles"
    from amplifier_app_cli.commands.bundle.compose import known_bundles

    if "://" in name or known_bundles(app).find(name) is not None:
        return "bundles"
    if name.startswith(("tool-", "provider-", "hook-", "hooks-", "loop-", "context-", "orchestrator-")):
        return "modules"
    raise click.UsageError(f"is {name!r} a module or a bundle? Give --module or --bundle")


def _without(kind: str, name: str) -> Callable[[Any, Any], Any]:
    from amplifier_foundation.settings.edit import unset_value

    return lambda path, keys: unset_value(path, ("sources", kind, name), keys)


def _overrides(app: App) -> list[_Override]:
    from amplifier_app_cli.commands.bundle.places import places_of

    found = []
    for kind in _KINDS:
        for name in app.settings.get(("sources", kind)) or {}:
            places = places_of(app, "sources", kind, name)
            for place in places:
                one = _Override(kind.removesuffix("s"), name, _shown(place.value), place.scope, place.where, False)
                found.append(replace(one, used=place is places[-1]))
    return found


def _places(app: App, name: str) -> list[dict[str, Any]]:
    """Return everything that says where a module or bundle comes from, the strongest first."""
    return [*_module_places(app, name), *_bundle_places(app, name)]


def _module_places(app: App, name: str) -> list[dict[str, Any]]:
    from importlib.metadata import entry_points

    from amplifier_app_cli.commands.bundle.compose import compose_bundle
    from amplifier_app_cli.commands.bundle.places import places_of
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.sources.module_resolver import find_module_folder

    found: list[dict[str, Any]] = []
    placed = find_module_folder(name, app.project, app.home, app.environ)
    if placed is not None:
        found.append(_place("folder", str(placed[0]), placed[1]))
    for key in (("overrides", name, "source"), ("sources", "modules", name)):
        found += [_place("module", place.value, place.where) for place in reversed(places_of(app, *key))]
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
    from amplifier_app_cli.commands.bundle.compose import known_bundles
    from amplifier_app_cli.commands.bundle.places import places_of

    found = [
        _place("bundle", place.value, place.where) for place in reversed(places_of(app, "sources", "bundles", name))
    ]
    known = known_bundles(app).find(name)
    if known is not None:
        found.append(_place("bundle", known.reference, known.origin))
    return found


def _place(kind: str, source: str, where: str) -> dict[str, Any]:
    return {"kind": kind, "source": source, "where": where}


def _near(app: App, name: str) -> str:
    from amplifier_foundation.errors import did_you_mean

    names = list(dict.fromkeys(one.id for one in _overrides(app)))
    return f": {did_you_mean(name, names)}" if names else ""


def _shown(uri: str) -> str:
    from amplifier_foundation.sources.uri import without_secrets

    return without_secrets(uri)
