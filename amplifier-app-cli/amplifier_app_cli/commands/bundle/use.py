"""`amplifier bundle use`, `clear` and `current`: which bundle runs."""

from __future__ import annotations

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.scope_options import ScopeChoice, scope_options
from amplifier_app_cli.ui.records import format_option, print_json

_KEY = ("bundle", "active")


@click.command()
@click.argument("name")
@scope_options
@told
def use(name: str, where: ScopeChoice) -> None:
    """Choose the bundle NAME (a name, a path or an address) to run when none is named.

    It is composed first, so that what cannot be used is not chosen.

    \b
    Examples:
      amplifier bundle use minimal
      amplifier bundle use ./bundle.md --project
    """
    from amplifier_app_cli.commands.bundle.compose import compose_bundle, reference_to
    from amplifier_app_cli.commands.bundle.places import overruled, written_path
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.bundles.loader import is_path
    from amplifier_foundation.settings.edit import set_value

    app = current_app()
    composition = compose_bundle(name)
    reference = reference_to(app, name)
    written = written_path(app, where, reference) if is_path(reference) else reference
    edit = change_settings(app, where, lambda path, keys: set_value(path, _KEY, written, keys))
    app.inform(f"{composition.bundle.name} runs from now on ({edit.path})")
    stronger = overruled(app, where, *_KEY)
    if stronger is not None:
        app.inform(f"note: here another one runs: {stronger} counts more")
    if composition.refusals:
        app.inform(f"note: it names what only a trusted project may run: see `amplifier trust {app.project}`")


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="In every scope.")
@scope_options
@told
def clear(everywhere: bool, where: ScopeChoice) -> None:
    """Choose no bundle any more: the default runs, or what another scope chooses.

    \b
    Examples:
      amplifier bundle clear
      amplifier bundle clear --project
      amplifier bundle clear --all
    """
    from amplifier_app_cli.commands.bundle.places import elsewhere, places_of
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import unset_value

    if everywhere and where.scope is not None:
        raise click.UsageError("give --all or a scope, not both")
    app = current_app()
    choices = [ScopeChoice(place.scope) for place in places_of(app, *_KEY)] if everywhere else [where]
    is_changed = False
    for choice in choices:
        edit = change_settings(app, choice, lambda path, keys: unset_value(path, _KEY, keys))
        is_changed |= edit.changed
        if edit.changed:
            app.inform(f"no bundle is chosen in {edit.path} any more")
    if not is_changed:
        others = "" if everywhere else elsewhere(app, *_KEY)
        app.inform(f"no bundle was chosen {'anywhere' if everywhere else 'there'}{others}")


@click.command()
@format_option
@told
def current(output_format: str) -> None:
    """Print the bundle that runs in this folder when none is named, and who chose it.

    \b
    Examples:
      amplifier bundle current
      amplifier bundle current --format json
    """
    from amplifier_app_cli.commands.bundle.compose import compose_bundle
    from amplifier_app_cli.commands.bundle.show import safe_text
    from amplifier_app_cli.ui.plain import plain

    chosen_by, where = _chosen(current_app())
    composition = compose_bundle()
    bundle = composition.bundle
    if output_format == "json":
        print_json(
            {
                "name": bundle.name,
                "version": bundle.version,
                "reference": safe_text("reference", composition.composed.reference),
                "file": str(bundle.file) if bundle.file is not None else None,
                "chosen_by": chosen_by,
                "where": where,
            }
        )
        return
    click.echo(plain(f"{bundle.name} {bundle.version}"))
    current_app().inform(f"chosen by {where or 'the program: nothing else is chosen; see `amplifier bundle use`'}")


def _chosen(app: App) -> tuple[str, str | None]:
    """Return the scope that chooses the bundle, `product` when none does, and `file:line`."""
    from amplifier_app_cli.commands.bundle.places import places_of

    places = places_of(app, *_KEY)
    return (places[-1].scope, places[-1].where) if places else ("product", None)
