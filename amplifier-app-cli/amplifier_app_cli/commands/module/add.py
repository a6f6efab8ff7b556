"""`amplifier module add` and `remove`: modules that settings add to every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.scope_options import ScopeChoice, scope_options
from amplifier_core.plan import MODULE_SECTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_foundation.settings import Edit, KeyStore

#: Where settings list modules of a type; a loop and a context are the business of bundles.
_LISTS: Final = {kind: section for section, kind in MODULE_SECTIONS.items()}


@click.command()
@click.argument("module_id", metavar="ID")
@click.option("-s", "--source", "source", metavar="URI", help="Where it comes from; not needed for an installed one.")
@click.option("-t", "--type", "kind", type=click.Choice(list(_LISTS)), help="What it is; told by its ID by default.")
@scope_options
@told
def add(module_id: str, source: str | None, kind: str | None, where: ScopeChoice) -> None:
    """Add the module ID to every session.

    \b
    Examples:
      amplifier module add hooks-streaming-ui
      amplifier module add tool-census --source ./modules/tool-census --project
      amplifier module add tool-web -s git+https://example.com/team/tool-web@v1
    """
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import append_value, set_value
    from amplifier_foundation.settings.scopes import find
    from amplifier_foundation.settings.settings import read_settings_file

    app = current_app()
    section = _LISTS[kind or _kind_of(module_id)]
    written = written_source(app, where, source) if source is not None else None
    if written is None:
        _check_installed(app, module_id)
    place = ("modules", section, module_id)
    document = read_settings_file(where.file(app))
    if written is not None:
        edit = change_settings(app, where, lambda path, keys: set_value(path, (*place, "source"), written, keys))
    elif document is not None and find(document.data, place) is not None:
        app.inform(f"{where.file(app)} has {module_id} already")
        return
    else:
        entry = {"module": module_id}
        edit = change_settings(app, where, lambda path, keys: append_value(path, place[:2], entry, keys))
    app.inform(f"{module_id} is part of every session ({edit.path})")


@click.command()
@click.argument("module_id", metavar="ID")
@scope_options
@told
def remove(module_id: str, where: ScopeChoice) -> None:
    """Take the module ID, which settings add, out of every session again.

    \b
    Examples:
      amplifier module remove tool-census --project
    """
    from amplifier_app_cli.commands.bundle.places import elsewhere
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import unset_value
    from amplifier_foundation.settings.scopes import SettingsError

    app = current_app()
    for section in _LISTS.values():

        def without(path: Path, keys: KeyStore, section: str = section) -> Edit:
            return unset_value(path, ("modules", section, module_id), keys)

        edit = change_settings(app, where, without)
        if edit.changed:
            app.inform(f"{module_id} is not added any more ({edit.path})")
            return
    others = "".join(elsewhere(app, "modules", section, module_id) for section in _LISTS.values())
    raise SettingsError(f"{where.file(app)} adds no module {module_id!r}{others}")


def written_source(app: App, where: ScopeChoice, source: str) -> str:
    """Return a source as it is to stand in the settings; raises SourceError when it is none, or leads nowhere."""
    from amplifier_app_cli.commands.bundle.places import written_path
    from amplifier_foundation.sources.local import find_file
    from amplifier_foundation.sources.uri import parse_source

    parsed = parse_source(source)
    if parsed.kind != "file":
        return source
    find_file(parsed, base=app.project, environ=app.environ)
    return written_path(app, where, source) if "://" not in source else source


def _kind_of(module_id: str) -> str:
    """Return the type that the id says; raises UsageError when it says none that can be added."""
    words = module_id.lower().replace("_", "-").split("-")
    for word, kind in (("provider", "provider"), ("tool", "tool"), ("hooks", "hook"), ("hook", "hook")):
        if word in words:
            return kind
    if {"loop", "orchestrator", "context"} & set(words):
        raise click.UsageError(f"{module_id} is chosen by a bundle: set session.orchestrator or session.context there")
    raise click.UsageError(f"what {module_id} is cannot be told by its name: give --type")


def _check_installed(app: App, module_id: str) -> None:
    """Raise UsageError for a module that nothing brings."""
    from importlib.metadata import entry_points

    from amplifier_foundation.errors import did_you_mean
    from amplifier_foundation.sources.module_resolver import find_module_folder

    installed = sorted(entry.name for entry in entry_points(group="amplifier.modules"))
    if module_id not in installed and find_module_folder(module_id, app.project, app.home, app.environ) is None:
        hint = did_you_mean(module_id, installed)
        raise click.UsageError(f"{module_id} is not installed: say where it comes from with --source; {hint}")
