"""`amplifier allowed-dirs` and `amplifier denied-dirs`: where the file tool may write, and where it must not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import told
from amplifier_app_cli.scope_options import ScopeChoice, scope_options
from amplifier_app_cli.ui.records import format_option, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from amplifier_app_cli.app import App
    from amplifier_foundation.settings import KeyStore
    from amplifier_foundation.settings.edit import Edit

Kind = Literal["allowed_write_paths", "denied_write_paths"]

_TOOL: Final = "tool-filesystem"
#: Settings that lay something over the tool where a bundle has it, and those that add the tool to every session.
_LAID_OVER: Final = ("overrides", _TOOL, "config")
_ADDED: Final = ("modules", "tools", _TOOL, "config")


class _Listed(NamedTuple):
    """One folder of a list, and who put it there."""

    path: str
    scope: str
    where: str


@click.group(name="allowed-dirs")
def allowed_dirs() -> None:
    """Say where the file tool may write.

    \b
    Examples:
      amplifier allowed-dirs add ~/notes
      amplifier allowed-dirs list
      amplifier allowed-dirs remove ~/notes

    The project that the program runs in is always among them. What denied-dirs names stays denied.
    """


@click.group(name="denied-dirs")
def denied_dirs() -> None:
    """Say where the file tool must not write.

    \b
    Examples:
      amplifier denied-dirs add ./secrets --project
      amplifier denied-dirs list
      amplifier denied-dirs remove ./secrets --project
    """


def _add_commands(group: click.Group, kind: Kind, word: str) -> None:
    """Give a group its three commands, which differ in the list that they are about."""

    @group.command(
        help=f"""Add PATH to the {word} folders.

    \b
    Examples:
      amplifier {word}-dirs add ~/notes
      amplifier {word}-dirs add ./build --project
    """
    )
    @click.argument("path")
    @scope_options
    @format_option
    @told
    def add(path: str, where: ScopeChoice, output_format: str) -> None:
        _add(kind, word, path, where, output_format)

    @group.command(
        help=f"""Take PATH out of the {word} folders.

    \b
    Examples:
      amplifier {word}-dirs remove ~/notes
    """
    )
    @click.argument("path")
    @scope_options
    @format_option
    @told
    def remove(path: str, where: ScopeChoice, output_format: str) -> None:
        _remove(kind, word, path, where, output_format)

    @group.command(
        name="list",
        help=f"""Print the {word} folders, and which settings name them.

    \b
    Examples:
      amplifier {word}-dirs list
      amplifier {word}-dirs list --session 3f2a --format json
    """,
    )
    @scope_options
    @format_option
    @told
    def list_(where: ScopeChoice, output_format: str) -> None:
        _list(kind, word, where, output_format)


_add_commands(allowed_dirs, "allowed_write_paths", "allowed")
_add_commands(denied_dirs, "denied_write_paths", "denied")


def _add(kind: Kind, word: str, given: str, where: ScopeChoice, output_format: str) -> None:
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.settings.edit import append_value

    app = current_app()
    path = _absolute(app, given)
    kept = _kept(app, path, where)
    present = [listed for listed in _listed(app, kind, where) if _absolute(app, listed.path) == path]
    if any(listed.scope == (where.scope or "user") for listed in present):
        _report(app, f"{path} is {word} already", {"path": str(path), "changed": False}, output_format)
        return
    edit = change_settings(app, where, lambda file, keys: append_value(file, (*_LAID_OVER, kind), kept, keys))
    if not path.is_dir():
        app.inform(f"there is no folder {path} yet")
    record = {"path": str(path), "changed": edit.changed, "file": str(edit.path)}
    _report(app, f"{path} is {word} ({edit.path})", record, output_format)


def _remove(kind: Kind, word: str, given: str, where: ScopeChoice, output_format: str) -> None:
    from amplifier_app_cli.scope_options import change_settings
    from amplifier_foundation.errors import did_you_mean
    from amplifier_foundation.settings import SettingsError

    app = current_app()
    path = _absolute(app, given)
    listed = _listed(app, kind, where)
    scope = where.scope or "user"
    texts = {item.path for item in listed if item.scope == scope and _absolute(app, item.path) == path}
    if not texts:
        elsewhere = [item for item in listed if _absolute(app, item.path) == path]
        known = [item.path for item in listed]
        hint = did_you_mean(str(path), known) if known else f"no folders are {word}"
        if elsewhere:
            hint = f"{elsewhere[0].where} names it: add --scope {elsewhere[0].scope}"
        raise SettingsError(f"{path} is not among the {word} folders of the scope {scope}: {hint}")
    for text in sorted(texts):
        for place in (_LAID_OVER, _ADDED):
            change_settings(app, where, _removal((*place, kind), text))
    file = where.file(app)
    _report(app, f"{path} is not {word} any more ({file})", {"path": str(path), "changed": True}, output_format)


def _removal(key: tuple[str, ...], text: str) -> Callable[[Path, KeyStore], Edit]:
    """Return the change of a settings file that takes one item out of a list."""
    from amplifier_foundation.settings.edit import remove_item

    return lambda file, keys: remove_item(file, key, text, keys)


def _list(kind: Kind, word: str, where: ScopeChoice, output_format: str) -> None:
    app = current_app()
    listed = [item for item in _listed(app, kind, where) if where.scope in (None, "session", item.scope)]
    if output_format == "json":
        print_json([{**item._asdict(), "path": str(_absolute(app, item.path))} for item in listed])
        return
    if kind == "allowed_write_paths":
        app.inform(f"the project itself is always allowed: {app.project}")
    if not listed:
        app.inform(f"settings name no {word} folders: `amplifier {word}-dirs add PATH` adds one")
        return
    from amplifier_app_cli.ui.table import table, terminal_width

    rows = [(_absolute(app, item.path), item.scope, item.where) for item in listed]
    click.echo(table(("FOLDER", "SCOPE", "SET BY"), rows, terminal_width()))


def _listed(app: App, kind: Kind, where: ScopeChoice) -> list[_Listed]:
    """Return what every scope says, the weakest first: such lists are joined, so all of it counts."""
    from amplifier_foundation.settings import Settings
    from amplifier_foundation.settings.scopes import find

    folder = where.folder(app)
    loaded = Settings.load(app.home, app.project, folder) if folder is not None else app.settings
    listed: list[_Listed] = []
    for scope, document in loaded.documents:
        for place in (_LAID_OVER, _ADDED):
            items = find(document.data, (*place, kind))
            line = document.where(*(place if place is _LAID_OVER else place[:2]))
            listed += [_Listed(str(item), scope, line) for item in (items if isinstance(items, list) else [])]
    return listed


def _absolute(app: App, given: str) -> Path:
    """Return the folder that is meant, links followed as the tool does; raises SettingsError for an unknown user."""
    from amplifier_foundation.settings import SettingsError

    try:
        return (app.project / Path(given).expanduser()).resolve()
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"{given!r} is no path: {error}") from error


def _kept(app: App, path: Path, where: ScopeChoice) -> str:
    """Return what to write: a file that others share says nothing about where the project lies on this machine."""
    if where.scope == "project" and path.is_relative_to(app.project):
        return f"./{path.relative_to(app.project).as_posix()}"
    return str(path)


def _report(app: App, text: str, record: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        print_json(record)
    else:
        app.inform(text)
