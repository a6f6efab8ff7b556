"""`amplifier settings dirs`: where the file tool may write, and where it must not.

`amplifier allowed-dirs` and `amplifier denied-dirs` of the published program do the same, one list each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import click

from amplifier_app_cli.app import App
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import FOLDER, FOLDERS, SettingsEditor, report, scope_options
from amplifier_app_cli.ui.records import json_option, print_json, print_table
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.settings.scopes import SettingNotFoundError, SettingsError

Word = Literal["allowed", "denied"]
_WORDS: Final[tuple[Word, ...]] = ("allowed", "denied")


@click.command()
@click.option("--allow", "allowed", metavar="PATH", multiple=True, help="Allow writing in this folder.")
@click.option("--deny", "denied", metavar="PATH", multiple=True, help="Deny writing in this folder, allowed or not.")
@click.option("--remove", "removed", metavar="PATH", multiple=True, help="Remove this folder from both lists.")
@scope_options
@json_option
@report_errors
def dirs(
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    removed: tuple[str, ...],
    editor: SettingsEditor,
    as_json: bool,
) -> None:
    """Show the folders that the file tool may write to, and those that it must not; or change them.

    The project that the program runs in is always allowed. What is denied stays denied wherever it lies.

    \b
    Examples:
      amplifier settings dirs
      amplifier settings dirs --allow ~/notes
      amplifier settings dirs --deny ./secrets --project
      amplifier settings dirs --remove ~/notes
    """
    for path in removed:
        _remove_from_both(editor, path)
    for path in allowed:
        _add(editor, "allowed", path, as_json=False)
    for path in denied:
        _add(editor, "denied", path, as_json=False)
    if as_json or not (removed or allowed or denied):
        _list_both(replace(editor, app=editor.app.fresh()), as_json)


def _remove_from_both(editor: SettingsEditor, path: str) -> None:
    missing: list[SettingNotFoundError] = []
    for word in _WORDS:
        try:
            _remove(editor, word, path, as_json=False)
        except SettingNotFoundError as error:
            missing.append(error)
    if len(missing) == len(_WORDS):
        raise missing[0]


def _list_both(editor: SettingsEditor, as_json: bool) -> None:
    found = {word: _listed(editor, word) for word in _WORDS}
    if as_json:
        print_json({"project": str(editor.app.project), **found})
        return
    rows = [(word, one["path"], one["scope"], one["where"]) for word in _WORDS for one in found[word]]
    print_table(("", "FOLDER", "SCOPE", "SET BY"), [("allowed", editor.app.project, "always", "the project"), *rows])


@click.group(name="allowed-dirs", cls=LazyGroup)
def allowed_dirs() -> None:
    """Manage the folders that the file tool may write to.

    \b
    Examples:
      amplifier allowed-dirs add ~/notes
      amplifier allowed-dirs list
      amplifier allowed-dirs remove ~/notes

    The project that the program runs in is always among them. What denied-dirs names stays denied.
    """


@click.group(name="denied-dirs", cls=LazyGroup)
def denied_dirs() -> None:
    """Manage the folders that the file tool must not write to.

    \b
    Examples:
      amplifier denied-dirs add ./secrets --project
      amplifier denied-dirs list
      amplifier denied-dirs remove ./secrets --project
    """


def _add_commands(group: click.Group, word: Word) -> None:
    """Add the three commands of a group; the groups differ in their list."""

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
    @json_option
    @report_errors
    def add(path: str, editor: SettingsEditor, as_json: bool) -> None:
        _add(editor, word, path, as_json)

    @group.command(
        help=f"""Remove PATH from the {word} folders.

    \b
    Examples:
      amplifier {word}-dirs remove ~/notes
    """
    )
    @click.argument("path")
    @scope_options
    @json_option
    @report_errors
    def remove(path: str, editor: SettingsEditor, as_json: bool) -> None:
        _remove(editor, word, path, as_json)

    @group.command(
        name="list",
        help=f"""Print the {word} folders, and which settings name them.

    \b
    Examples:
      amplifier {word}-dirs list
      amplifier {word}-dirs list --session 3f2a --json
    """,
    )
    @scope_options
    @json_option
    @report_errors
    def list_(editor: SettingsEditor, as_json: bool) -> None:
        _list(editor, word, as_json)


_add_commands(allowed_dirs, "allowed")
_add_commands(denied_dirs, "denied")


def _add(editor: SettingsEditor, word: Word, given: str, as_json: bool) -> None:
    app = editor.app
    path = _absolute(app, given)
    own = editor.scope or "user"
    if any(item.scope == own and _absolute(app, item.path) == path for item in editor.folders(word)):
        report(app, as_json, f"{path} is {word} already", {"path": str(path), "changed": False})
        return
    # A file that others share does not name the folder of the project on this machine.
    is_shared = editor.scope == "project" and path.is_relative_to(app.project)
    value = f"./{path.relative_to(app.project).as_posix()}" if is_shared else str(path)
    edit = editor.append(FOLDER.at({"word": word}), value)
    if not path.is_dir():
        app.inform(f"there is no folder {path} yet")
    text = FOLDER.added.format(name=path, word=word, file=edit.path)
    report(app, as_json, text, {"path": str(path), "changed": edit.changed, "file": str(edit.path)})


def _remove(editor: SettingsEditor, word: Word, given: str, as_json: bool) -> None:
    app = editor.app
    path = _absolute(app, given)
    scope = editor.scope or "user"
    listed = editor.folders(word)
    found = [item for item in listed if _absolute(app, item.path) == path]
    texts = sorted({item.path for item in found if item.scope == scope})
    if not texts:
        hint = did_you_mean(str(path), [item.path for item in listed]) if listed else f"no folders are {word}"
        if found:
            hint = f"{found[0].where} names it: add --scope {found[0].scope}"
        raise SettingNotFoundError(f"{FOLDER.missing.format(name=path, word=word, scope=scope)}: {hint}")
    for text in texts:
        for setting in FOLDERS:
            editor.remove_item(setting.at({"word": word}), text)
    text = FOLDER.removed.format(name=path, word=word, file=editor.file)
    report(app, as_json, text, {"path": str(path), "changed": True})


def _list(editor: SettingsEditor, word: Word, as_json: bool) -> None:
    app = editor.app
    listed = _listed(editor, word)
    if as_json:
        print_json(listed)
        return
    if word == "allowed":
        app.inform(f"the project itself is always allowed: {app.project}")
    if not listed:
        app.inform(f"settings name no {word} folders: `amplifier {word}-dirs add PATH` adds one")
        return

    rows = [(item["path"], item["scope"], item["where"]) for item in listed]
    print_table(("FOLDER", "SCOPE", "SET BY"), rows)


def _listed(editor: SettingsEditor, word: Word) -> list[dict[str, Any]]:
    """Return the folders of a list as records; of one scope when one is named."""
    listed = [item for item in editor.folders(word) if editor.scope in (None, "session", item.scope)]
    return [{**item._asdict(), "path": str(_absolute(editor.app, item.path))} for item in listed]


def _absolute(app: App, given: str) -> Path:
    """Return the folder that is meant, with links followed as the tool does; raises SettingsError."""
    try:
        return (app.project / Path(given).expanduser()).resolve()
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"{given!r} is not a path: {error}") from error
