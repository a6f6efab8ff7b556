"""`amplifier settings`: look at settings and change them, one key at a time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.command_tree import Entry, LazyGroup
from amplifier_app_cli.completion import SETTING
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import SettingsEditor, report, scope_options
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_foundation.documents import parse_document
from amplifier_foundation.errors import DocumentError, did_you_mean
from amplifier_foundation.settings.edit import Edit
from amplifier_foundation.settings.scopes import SettingNotFoundError, SettingsError, find, leaves, parts_of
from amplifier_foundation.settings.secrets import masked
from amplifier_foundation.settings.settings import SettingOrigin

_ALIASES: Final = {
    "dirs": Entry("amplifier_app_cli.commands.dirs:dirs"),
    "explain": Entry(f"{__name__}:show"),
    "get": Entry(f"{__name__}:get"),
    "reset": Entry("amplifier_app_cli.commands.reset:reset"),
}


@click.group(cls=LazyGroup, aliases=_ALIASES)
def settings() -> None:
    """Show and change settings.

    \b
    Examples:
      amplifier settings list
      amplifier settings set bundle.active minimal
      amplifier settings set config.providers.provider-mock.config.priority 10 --project
      amplifier settings show bundle.active

    A key consists of names with dots between them; entries of module lists go by their id, else by their module; a name
    that contains a dot is put in double quotes: 'bundle.added."my.bundle"'. Later scopes win: user, project, local,
    session. `amplifier settings reset` deletes what the program keeps in its home, by category.
    """


@click.command()
@click.argument("key", type=SETTING)
@scope_options
@json_option
@report_errors
def get(key: str, editor: SettingsEditor, as_json: bool) -> None:
    """Print the value of KEY.

    \b
    Examples:
      amplifier settings get bundle.active
      amplifier settings get config --scope user --json

    It is the merged value of all scopes, or that of a single scope when one is named.
    """
    parts = key_parts(key)
    value = masked(parts, _found(key, parts, _data(editor)))
    if as_json:
        print_json({"key": key, "value": value})
    else:
        click.echo(_text(value))


@settings.command(name="set", context_settings={"ignore_unknown_options": True})  # a value may be -1
@click.argument("key", type=SETTING)
@click.argument("value")
@click.option("--string", "is_text", is_flag=True, help="Take VALUE as text, even if it looks like a number.")
@scope_options
@json_option
@report_errors
def set_(key: str, value: str, is_text: bool, editor: SettingsEditor, as_json: bool) -> None:
    """Set KEY to VALUE.

    \b
    Examples:
      amplifier settings set bundle.active minimal
      amplifier settings set bundle.app '[./behaviors/extra.yaml]' --project
      amplifier settings set overrides.loop-streaming.config.max_iterations 50 --local

    VALUE is JSON, a list or mapping as YAML writes them on one line, or text. A secret in clear goes to the key store,
    and the settings refer to it.
    """
    if value.startswith("--"):
        raise click.UsageError(f"unknown option {value}; if it is meant as the value, write it as JSON text")
    edit = editor.set(key_parts(key), value if is_text else parse_value(value))
    if edit.moved:
        editor.app.inform(
            "a value that is typed as an argument may stay in the history of your shell: `amplifier keys set` asks"
        )
    _report(editor, edit, key, as_json)


@settings.command()
@click.argument("key", type=SETTING)
@scope_options
@json_option
@report_errors
def unset(key: str, editor: SettingsEditor, as_json: bool) -> None:
    """Remove KEY from a scope's settings.

    \b
    Examples:
      amplifier settings unset bundle.active
      amplifier settings unset config.providers.provider-mock --project

    The value of a weaker scope applies again.
    """
    parts = key_parts(key)
    edit = editor.unset(parts)
    if not edit.changed:
        others = [scope for scope, document in editor.app.settings.documents if find(document.data, parts) is not None]
        hint = f", but in the scope {others[-1]}: add --scope {others[-1]}" if others else ""
        editor.app.inform(f"{key} is not set in {edit.path}{hint}")
    _report(editor, edit, key, as_json)


@settings.command(name="list")
@scope_options
@json_option
@report_errors
def list_(editor: SettingsEditor, as_json: bool) -> None:
    """Print every setting and its scope.

    \b
    Examples:
      amplifier settings list
      amplifier settings list --project --json

    With a scope, all settings of this one, whether a stronger one overrides them or not.
    """
    origins = [origin for origin in _origins(editor) if editor.scope in (None, origin.scope)]
    rows = [(origin.key, _text(origin.value), origin.scope) for origin in origins]
    empty = "nothing is set: use `amplifier settings set KEY VALUE`, or start with `amplifier init`"
    print_list(as_json, [_record(origin) for origin in origins], ("KEY", "VALUE", "SCOPE"), rows, empty=empty)


@settings.command()
@click.argument("key", required=False, type=SETTING)
@click.option("--session", metavar="ID", help="Include the settings of this session.")
@json_option
@report_errors
def show(key: str | None, session: str | None, as_json: bool) -> None:
    """Show the value of KEY, the file and line that set it, and the values that it replaced.

    \b
    Examples:
      amplifier settings show bundle.active
      amplifier settings show --json

    Without KEY, every setting is shown. `amplifier settings get KEY` prints the value alone, for scripts.
    """
    app = current_app()
    settings = SettingsEditor(app, session=session).settings
    origins = settings.explain()
    if key is not None:
        parts = ".".join(key_parts(key))
        wanted = [origin for origin in origins if origin.key == parts or origin.key.startswith(f"{parts}.")]
        if not wanted:
            _found(key, key_parts(key), settings.data)
        origins = wanted
    if as_json:
        print_json([_record(origin) for origin in origins])
        return

    for origin in origins:
        click.echo(plain(f"{origin.key} = {_text(origin.value)}\n  set by {origin.scope}: {origin.where}"))
        for lost in origin.lost:
            click.echo(plain(f"  instead of {_text(lost.value)} ({lost.scope}: {lost.where})"))
    if not origins:
        app.inform("nothing is set")


def key_parts(key: str) -> tuple[str, ...]:
    """Return the names of a dotted key; one in double quotes may have dots in it. Raises SettingsError."""
    names = re.findall(r'(?:^|\.)(?:"([^"]*)"|([^."]*))(?=\.|$)', key)
    parts = tuple(quoted or bare for quoted, bare in names)
    is_whole = ".".join(f'"{quoted}"' if quoted else bare for quoted, bare in names) == key
    return parts if is_whole and all(parts) else parts_of(f"{key}.")  # which is refused with the key as it was given


def parse_value(text: str) -> Any:
    """Return the value of an argument: JSON, a list or mapping in YAML, true, false or null in any case, else text.

    `on` and `3.10.1` are text. Raises SettingsError for a list or mapping that is malformed.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        pass
    words = {"true": True, "false": False, "null": None, "~": None}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    if not text.lstrip().startswith(("[", "{")):
        return text

    try:
        return _from_yaml(text)
    except DocumentError as error:
        raise SettingsError(
            f"the value is neither a list nor a mapping: {error}: put text into quotes, or add --string"
        ) from None


def _from_yaml(text: str) -> Any:
    return parse_document(Path("the value"), f"value: {text}".encode()).data["value"]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _data(editor: SettingsEditor) -> dict[str, Any]:
    """Return the merged settings, or those of one scope when one is named."""
    settings = editor.settings
    if editor.scope is None:
        return settings.data
    return next((document.data for scope, document in settings.documents if scope == editor.scope), {})


def _origins(editor: SettingsEditor) -> list[SettingOrigin]:
    """Return every setting with its origin; of one scope, all of them, overridden or not."""
    settings = editor.settings
    if editor.scope is None:
        return settings.explain()

    own = tuple(pair for pair in settings.documents if pair[0] == editor.scope)
    return replace(settings, data=own[0][1].data if own else {}, documents=own).explain()


def _found(key: str, parts: tuple[str, ...], data: dict[str, Any]) -> Any:
    """Return the value at a key; raises SettingNotFoundError with a hint."""
    value = find(data, parts)
    if value is not None:
        return value
    known = dict.fromkeys(".".join(at[:length]) for at, _, _ in leaves(data) for length in range(1, len(at) + 1))
    hint = did_you_mean(key, list(known)) if known else "nothing is set at all"
    raise SettingNotFoundError(f"{key} is not set: {hint}")


def _text(value: Any) -> str:
    """Return a value for a person: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return plain(value)

    return plain(json.dumps(value, ensure_ascii=False, default=str))


def _record(origin: SettingOrigin) -> dict[str, Any]:
    return {**origin._asdict(), "lost": [lost._asdict() for lost in origin.lost]}


def _report(editor: SettingsEditor, edit: Edit, key: str, as_json: bool) -> None:
    moved = [moved.variable for moved in edit.moved]
    record = {"key": key, "changed": edit.changed, "file": str(edit.path), "secrets_moved_to": moved}
    report(editor.app, as_json, f"{edit.path}: {key} changed" if edit.changed else "", record)
