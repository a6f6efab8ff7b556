"""`amplifier bundle add` and `remove`: names for bundles, and bundles that are part of every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.scope_options import ScopeChoice, scope_options

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_foundation.settings import Edit, KeyStore


@click.command()
@click.argument("uri")
@click.option("-n", "--name", "name", help="What to call it; the name it gives itself by default.")
@click.option("--app", "is_app", is_flag=True, help="Add it to every session as well.")
@scope_options
@told
def add(uri: str, name: str | None, is_app: bool, where: ScopeChoice) -> None:
    """Give the bundle at URI (a path or an address) a name.

    It is fetched and composed first, so that only what can be used gets a name.

    \b
    Examples:
      amplifier bundle add git+https://example.com/team/bundle@v1 -n team
      amplifier bundle add ./behaviors/review.yaml --app --project
    """
    from amplifier_app_cli.commands.bundle.compose import compose_bundle
    from amplifier_app_cli.commands.bundle.places import written_path
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.bundles.loader import is_path
    from amplifier_foundation.settings.edit import append_value, set_value

    app = current_app()
    _check_name(name)
    bundle = compose_bundle(uri).bundle
    called = name or bundle.name
    _check_name(called)
    written = written_path(app, where, uri) if is_path(uri) else uri
    _warn_of_hidden(app, called)
    edit = change_settings(app, where, lambda path, keys: set_value(path, ("bundle", "added", called), written, keys))
    if is_app:
        change_settings(app, where, lambda path, keys: append_value(path, ("bundle", "app"), written, keys))
    app.inform(f"{called} is {bundle.name} {bundle.version}{', part of every session' if is_app else ''} ({edit.path})")


@click.command()
@click.argument("name")
@click.option("--app", "is_app", is_flag=True, help="Take it out of every session; its name stays.")
@scope_options
@told
def remove(name: str, is_app: bool, where: ScopeChoice) -> None:
    """Forget the name NAME that was given to a bundle; with --app, take it out of every session instead.

    Files are never deleted.

    \b
    Examples:
      amplifier bundle remove team
      amplifier bundle remove team --app
    """
    from amplifier_app_cli.commands.bundle.places import elsewhere
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import unset_value

    app = current_app()
    if is_app:
        _take_out(app, name, where)
        return
    edit = change_settings(app, where, lambda path, keys: unset_value(path, ("bundle", "added", name), keys))
    if edit.changed:
        app.inform(f"{name} is no name of a bundle any more ({edit.path})")
    elif where.scope in (None, "user") and _forget(app, name):
        app.inform(f"{name} is no name of a bundle any more ({app.home.registry})")
    else:
        _not_there(app, name, elsewhere(app, "bundle", "added", name))
    _tell_if_used(app, name)


def _check_name(name: str | None) -> None:
    """Raise UsageError for what could not be told from a path or an address later."""
    import re

    if name is None:
        return
    if not re.fullmatch(r"[\w.-]+", name):
        raise click.BadParameter(f"{name!r} is no name: use letters, digits, '-', '_' and '.'", param_hint="--name")
    if name.lower().endswith((".md", ".yaml", ".yml")):
        raise click.BadParameter(f"{name!r} would be taken for a file: leave out the suffix", param_hint="--name")


def _warn_of_hidden(app: App, name: str) -> None:
    from amplifier_app_cli.commands.bundle.compose import known_bundles

    known = known_bundles(app).find(name)
    if known is None:
        return
    if known.origin in ("project", "user"):
        app.inform(f"note: {name} means {known.reference} all the same: the {known.origin}'s own bundles come first")
    elif known.origin == "product":
        app.inform(f"note: {name} no longer means the bundle that comes with the program")


def _take_out(app: App, name: str, where: ScopeChoice) -> None:
    """Take a bundle out of every session: by its name or its address."""
    from amplifier_app_cli.commands.bundle.places import places_of, written_path
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import remove_item
    from amplifier_foundation.settings.scopes import SettingsError
    from amplifier_foundation.settings.settings import read_settings_file

    document = read_settings_file(where.file(app))
    added = ((document.data.get("bundle") or {}).get("added") or {}) if document is not None else {}
    # The file has paths as they were written, so its own words are looked for first.
    meant = [added.get(name), name, app.settings.get(("bundle", "added", name)), written_path(app, where, name)]
    for item in dict.fromkeys(item for item in meant if item):

        def without(path: Path, keys: KeyStore, item: str = item) -> Edit:
            return remove_item(path, ("bundle", "app"), item, keys)

        edit = change_settings(app, where, without)
        if edit.changed:
            app.inform(f"{name} is not part of every session any more ({edit.path})")
            return
    listed = "; ".join(f"{place.where} has {', '.join(place.value)}" for place in places_of(app, "bundle", "app"))
    raise SettingsError(f"{where.file(app)} does not add {name!r} to every session: {listed or 'nothing is added'}")


def _forget(app: App, name: str) -> bool:
    """Take a name out of the registry file, which other programs write too; return whether it was there."""
    import json

    from amplifier_foundation.files import locked, replace_file

    path = app.home.registry
    if not path.exists():
        return False
    with locked(path.with_name(f"{path.name}.lock")):
        try:
            data = json.loads(path.read_bytes().decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return False  # whoever looks names up in it tells that it cannot be read
        bundles = data.get("bundles") if isinstance(data, dict) else None
        if not isinstance(bundles, dict) or name not in bundles:
            return False
        del bundles[name]
        replace_file(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
    return True


def _not_there(app: App, name: str, where: str) -> NoReturn:
    from amplifier_app_cli.commands.bundle.compose import known_bundles
    from amplifier_foundation.bundles.bundle import BundleNotFoundError
    from amplifier_foundation.errors import did_you_mean

    registry = known_bundles(app)
    known = registry.find(name)
    if known is not None and known.origin in ("project", "user"):
        raise BundleNotFoundError(f"{name!r} was not added: it is the file {known.reference}; delete that to remove it")
    if known is not None and known.origin == "product":
        raise BundleNotFoundError(f"{name!r} comes with the program and stays")
    if where:
        raise BundleNotFoundError(f"{name!r} is not there{where}")
    names = [one.name for one in registry.list() if one.origin in ("settings", "registry")]
    hint = did_you_mean(name, names) if names else "no bundle was added"
    raise BundleNotFoundError(f"there is no bundle named {name!r}: {hint}")


def _tell_if_used(app: App, name: str) -> None:
    from amplifier_app_cli.commands.bundle.places import places_of

    for place in places_of(app, "bundle", "active"):
        if place.value == name:
            app.inform(f"note: {place.where} still chooses {name}: see `amplifier bundle clear`")
