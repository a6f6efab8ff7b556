"""`amplifier bundle set`, `unset` and `current`: which bundle runs."""

from __future__ import annotations

from dataclasses import replace

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import compose_bundle, reference_to
from amplifier_app_cli.commands.bundle.show import safe_text
from amplifier_app_cli.completion import BUNDLE
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import ACTIVE_BUNDLE, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json
from amplifier_foundation.bundles.loader import is_path


@click.command(name="set")
@click.argument("name", type=BUNDLE)
@scope_options
@json_option
@report_errors
@with_json_of_edits
def set_(name: str, editor: SettingsEditor) -> None:
    """Choose the bundle NAME (a name, a path or an address) to run when none is named.

    It is composed first, so that only a usable bundle is chosen. `amplifier bundle unset` takes the choice back.

    \b
    Examples:
      amplifier bundle set minimal
      amplifier bundle set ./bundle.md --project
    """
    app = editor.app
    composition = compose_bundle(name)
    reference = reference_to(app, name)
    value = editor.written_path(reference) if is_path(reference) else reference
    editor.add(ACTIVE_BUNDLE, value, name=composition.bundle.name)
    if composition.refusals:
        app.inform(f"note: it names what only a trusted project may run: see `amplifier trust {app.project}`")


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="In every scope.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def unset(everywhere: bool, editor: SettingsEditor) -> None:
    """Unset the bundle of a scope: the default runs, or the choice of another scope.

    \b
    Examples:
      amplifier bundle unset
      amplifier bundle unset --project
      amplifier bundle unset --all
    """
    if everywhere and editor.scope is not None:
        raise click.UsageError("give --all or a scope, not both")
    app, key = editor.app, ACTIVE_BUNDLE.key
    editors = [replace(editor, scope=place.scope) for place in editor.places(key)] if everywhere else [editor]
    if not [one for one in editors if one.take_out(ACTIVE_BUNDLE, {})]:
        app.inform("no bundle was chosen anywhere" if everywhere else ACTIVE_BUNDLE.missing + editor.elsewhere(key))


@click.command()
@json_option
@report_errors
def current(as_json: bool) -> None:
    """Print the bundle that runs in this folder when none is named, and the file that chose it.

    \b
    Examples:
      amplifier bundle show
    """
    app = current_app()
    chosen = next(reversed(SettingsEditor(app).places(ACTIVE_BUNDLE.key)), None)
    composition = compose_bundle()
    bundle = composition.bundle
    if as_json:
        print_json(
            {
                "name": bundle.name,
                "version": bundle.version,
                "reference": safe_text("reference", composition.composed.reference),
                "file": str(bundle.file) if bundle.file is not None else None,
                "chosen_by": chosen.scope if chosen else "product",
                "where": chosen.where if chosen else None,
            }
        )
        return
    click.echo(plain(f"{bundle.name} {bundle.version}"))
    default = "the program: nothing else is chosen; see `amplifier bundle set`"
    app.inform(f"chosen by {chosen.where if chosen else default}")
