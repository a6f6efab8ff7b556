"""`amplifier routing`: which models fit which role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import Setting, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_foundation.children.model_roles import RoutingError, routing_settings
from amplifier_foundation.files import replace_file

if TYPE_CHECKING:
    from amplifier_kit.engine.routing.matrix import Matrix

MATRIX: Final = Setting(
    ("routing", "matrix"),
    added="models are chosen by the matrix {name} from now on ({file})",
    removed="{file} no longer chooses a matrix",
    missing="no matrix was chosen there",
    overridden="note: overridden here by {by}",
)


@click.group(cls=LazyGroup)
def routing() -> None:
    """List, choose and create matrices: which models fit which role.

    \b
    Examples:
      amplifier routing list
      amplifier routing use economy
      amplifier routing show quality
      amplifier routing create team --like balanced

    Agents name a role, such as fast or coding; the first model of the matrix that your providers have answers.
    """


@routing.command(name="list")
@json_option
@report_errors
def list_(as_json: bool) -> None:
    """List the matrices; the chosen one is marked.

    \b
    Examples:
      amplifier routing list
    """
    from amplifier_kit.engine.routing.matrix import find_matrices

    app = current_app()
    chosen = _chosen(app)
    found = [_load(app, name) for name in sorted(find_matrices(_folders(app)))]
    records = [
        {
            "name": matrix.name,
            "is_chosen": matrix.name == chosen,
            "description": matrix.description,
            "file": str(matrix.file),
        }
        for matrix in found
    ]
    rows = [("*" if each.name == chosen else "", each.name, each.description) for each in found]
    print_list(as_json, records, ("", "MATRIX", "DESCRIPTION"), rows, empty="no matrices")


@routing.command()
@click.argument("name")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def use(name: str, editor: SettingsEditor) -> None:
    """Choose models by the matrix NAME from now on.

    \b
    Examples:
      amplifier routing use economy
      amplifier routing use quality --project
    """
    matrix = _load(editor.app, name)
    editor.add(MATRIX, matrix.name, name=matrix.name)


@routing.command()
@click.argument("name", required=False)
@json_option
@report_errors
def show(name: str | None, as_json: bool) -> None:
    """Show the roles of a matrix, by default of the chosen one, with their models.

    \b
    Examples:
      amplifier routing show
      amplifier routing show ollama
    """
    app = current_app()
    matrix = _load(app, name or _chosen(app) or "balanced")
    roles = {
        role: {"description": found.description, "candidates": list(found.candidates)}
        for role, found in matrix.roles.items()
    }
    if as_json:
        print_json({"name": matrix.name, "description": matrix.description, "file": str(matrix.file), "roles": roles})
        return
    rows = [
        (role, ", ".join(f"{each['provider']}/{each.get('model') or 'default'}" for each in found.candidates))
        for role, found in matrix.roles.items()
    ]
    print_list(False, [], ("ROLE", "MODELS"), rows, empty="no roles")
    app.inform(plain(f"{matrix.name}: {matrix.description} ({matrix.file})"))


@routing.command()
@scope_options
@json_option
@report_errors
@with_json_of_edits
def manage(editor: SettingsEditor) -> None:
    """Pick the matrix from a list.

    \b
    Examples:
      amplifier routing manage
    """
    from amplifier_kit.engine.routing.matrix import find_matrices

    app = editor.app
    if not app.can_ask:
        raise click.UsageError("there is nobody to ask: `amplifier routing use NAME` chooses a matrix")
    names = sorted(find_matrices(_folders(app)))
    for name in names:
        click.echo(plain(f"{name}: {_load(app, name).description}"), err=True)
    picked = click.prompt("Which matrix?", type=click.Choice(names), default=_chosen(app) or "balanced", err=True)
    editor.add(MATRIX, picked, name=picked)


@routing.command()
@click.argument("name")
@click.option("--like", "like", default="balanced", metavar="MATRIX", help="The matrix to begin with.")
@json_option
@report_errors
def create(name: str, like: str, as_json: bool) -> None:
    """Create the matrix NAME in your home, as a copy of another one to edit.

    \b
    Examples:
      amplifier routing create team
      amplifier routing create cheap --like economy
    """
    app = current_app()
    if not name.replace("-", "").replace("_", "").isalnum():
        raise click.UsageError(f"invalid name {name!r}: use letters, digits, '-' and '_'")
    base = _load(app, like)
    file = app.home.path / "routing" / f"{name}.yaml"
    if file.exists():
        raise RoutingError(f"{file} is there already: edit it, or choose another name")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = base.file.read_text(encoding="utf-8").splitlines()
    renamed = [f"name: {name}" if line.startswith("name:") else line for line in lines]
    replace_file(file, "\n".join([*renamed, ""]).encode())
    _load(app, name)
    if as_json:
        print_json({"name": name, "file": str(file)})
    app.inform(f"{file} is a copy of {like}: edit it, then `amplifier routing use {name}`")


def _folders(app: App) -> list[Path]:
    return [app.home.path / "routing"]


def _chosen(app: App) -> str | None:
    return routing_settings(app.settings)[0]


def _load(app: App, name: str) -> Matrix:
    from amplifier_kit.engine.routing.matrix import MatrixError, load_matrix

    try:
        return load_matrix(name, _folders(app))
    except MatrixError as error:
        raise RoutingError(str(error)) from error
