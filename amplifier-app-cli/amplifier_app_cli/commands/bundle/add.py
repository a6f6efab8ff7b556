"""`amplifier bundle add` and `remove`: names for bundles, and bundles that are part of every session."""

from __future__ import annotations

import json
import re
from typing import NoReturn

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.bundle.compose import compose_bundle, known_bundles
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import (
    ACTIVE_BUNDLE,
    APP_BUNDLE,
    NAMED_BUNDLE,
    SettingsEditor,
    scope_options,
    with_json_of_edits,
)
from amplifier_app_cli.ui.records import json_option
from amplifier_foundation.bundles.bundle import BundleNotFoundError
from amplifier_foundation.bundles.loader import is_path
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.files import locked, replace_file
from amplifier_foundation.settings.edit import Edit
from amplifier_foundation.settings.settings import read_settings_file


@click.command()
@click.argument("uri")
@click.option("-n", "--name", "name", help="Its name; by default, the one in the bundle.")
@click.option("--app", "is_app", is_flag=True, help="Add it to every session as well.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def add(uri: str, name: str | None, is_app: bool, editor: SettingsEditor) -> None:
    """Add the bundle at URI (a path or an address) under a name.

    It is fetched and composed first, so that only a usable bundle is added.

    \b
    Examples:
      amplifier bundle add git+https://example.com/team/bundle@v1 -n team
      amplifier bundle add ./behaviors/review.yaml --app --project
    """
    _check_name(name)
    bundle = compose_bundle(uri).bundle
    called = name or bundle.name
    _check_name(called)
    value = editor.written_path(uri) if is_path(uri) else uri
    _warn_of_hidden(editor.app, called)
    more = ", part of every session" if is_app else ""
    editor.add(NAMED_BUNDLE, value, name=called, bundle=bundle.name, version=bundle.version, more=more)
    if is_app:
        editor.append(APP_BUNDLE.key, value)


@click.command()
@click.argument("name", type=BUNDLE)
@click.option("--app", "is_app", is_flag=True, help="Remove it from every session; its name stays.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def remove(name: str, is_app: bool, editor: SettingsEditor) -> None:
    """Remove the name NAME of a bundle; with --app, remove the bundle from every session instead.

    Files are never deleted.

    \b
    Examples:
      amplifier bundle remove team
      amplifier bundle remove team --app
    """
    app = editor.app
    if is_app:
        _remove_from_sessions(editor, name)
        return
    if not editor.take_out(NAMED_BUNDLE, {"name": name}):
        if editor.scope not in (None, "user") or not _remove_from_registry(app, name):
            _not_added(app, name, editor.elsewhere(NAMED_BUNDLE.at({"name": name})))
        editor.edits.append((("bundles", name), Edit(app.home.registry, changed=True)))
        app.inform(NAMED_BUNDLE.removed.format(name=name, file=app.home.registry))
    for place in editor.places(ACTIVE_BUNDLE.key):
        if place.value == name:
            app.inform(f"note: {place.where} still chooses {name}: see `amplifier bundle unset`")


def _check_name(name: str | None) -> None:
    """Raise UsageError for a name that would be read as a path or an address."""
    if name is None:
        return
    if not re.fullmatch(r"[\w.-]+", name):
        raise click.BadParameter(f"invalid name {name!r}: use letters, digits, '-', '_' and '.'", param_hint="--name")
    if name.lower().endswith((".md", ".yaml", ".yml")):
        raise click.BadParameter(f"{name!r} would be taken for a file: leave out the suffix", param_hint="--name")


def _warn_of_hidden(app: App, name: str) -> None:
    known = known_bundles(app).find(name)
    if known is None:
        return
    if known.origin in ("project", "user"):
        app.inform(f"note: {name} means {known.reference} all the same: the {known.origin}'s own bundles come first")
    elif known.origin == "product":
        app.inform(f"note: {name} no longer means the bundle that comes with the program")


def _remove_from_sessions(editor: SettingsEditor, name: str) -> None:
    """Remove a bundle, given by its name or its address, from every session."""
    document = read_settings_file(editor.file)
    added = ((document.data.get("bundle") or {}).get("added") or {}) if document is not None else {}
    # The file has paths as they were written, so its own names are looked up first.
    known = editor.app.settings.get(("bundle", "added", name))
    items = dict.fromkeys(item for item in (added.get(name), name, known, editor.written_path(name)) if item)
    listed = "; ".join(f"{place.where} has {', '.join(place.value)}" for place in editor.places(APP_BUNDLE.key))
    candidates = [{"name": name, "value": item} for item in items]
    editor.remove(APP_BUNDLE, *candidates, hint=f": {listed or 'nothing is added'}")


def _remove_from_registry(app: App, name: str) -> bool:
    """Remove a name from the registry file, which other programs write too; return whether it had it."""
    path = app.home.registry
    if not path.exists():
        return False
    with locked(path.with_name(f"{path.name}.lock")):
        try:
            data = json.loads(path.read_bytes().decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return False  # looking names up in it reports that it cannot be read
        bundles = data.get("bundles") if isinstance(data, dict) else None
        if not isinstance(bundles, dict) or name not in bundles:
            return False
        del bundles[name]
        replace_file(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
    return True


def _not_added(app: App, name: str, elsewhere: str) -> NoReturn:
    registry = known_bundles(app)
    known = registry.find(name)
    if known is not None and known.origin in ("project", "user"):
        raise BundleNotFoundError(f"{name!r} was not added: it is the file {known.reference}; delete that to remove it")
    if known is not None and known.origin == "product":
        raise BundleNotFoundError(f"{name!r} comes with the program and stays")
    if elsewhere:
        raise BundleNotFoundError(f"{name!r} is not set in this scope{elsewhere}")
    names = [one.name for one in registry.list() if one.origin in ("settings", "registry")]
    hint = did_you_mean(name, names) if names else "no bundle was added"
    raise BundleNotFoundError(f"unknown bundle {name!r}: {hint}")
