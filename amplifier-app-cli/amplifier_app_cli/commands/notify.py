"""`amplifier notify`: be told when a turn has ended."""

from __future__ import annotations

from typing import Any, Final

import click

from amplifier_app_cli.app import current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.settings_editor import Setting, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.records import json_option, print_json

#: Whoever knows the topic reads the notifications: it is a key, never a setting.
TOPIC: Final = "AMPLIFIER_NTFY_TOPIC"
CHANNELS: Final = ("desktop", "ntfy")

_CHANNEL: Final = Setting(
    ("config", "notifications", "{channel}", "{option}"),
    added="notifications: {channel}.{option} is {shown} ({file})",
    removed="",
    missing="",
    overridden="note: overridden here by {by}",
)
_WHOLE: Final = Setting(
    ("config", "notifications", "{channel}"),
    added="",
    removed="notifications: {channel} is no longer in {file}",
    missing="notifications: {channel} is not in {file}",
)


@click.group(cls=LazyGroup)
def notify() -> None:
    """Be told when a turn has ended: on the desktop, or on your phone.

    \b
    Examples:
      amplifier notify desktop --enable
      amplifier notify ntfy --enable --server https://ntfy.example.org
      amplifier notify status
      amplifier notify reset --all
    """


@notify.command()
@json_option
@report_errors
def status(as_json: bool) -> None:
    """Show which notifications are enabled, and how.

    \b
    Examples:
      amplifier notify status
    """
    app = current_app()
    store = app.key_store()
    has_topic = TOPIC in app.environ or any(entry.name == TOPIC for entry in store.list([TOPIC]))
    section = app.settings.get("config.notifications") or {}
    found = {name: dict(section.get(name) or {}) for name in CHANNELS}
    if as_json:
        print_json({**found, "has_topic": has_topic})
        return
    for name, options in found.items():
        state = "enabled" if options.pop("enabled", False) is True else "disabled"
        more = ", ".join(f"{key}: {value}" for key, value in options.items())
        click.echo(plain(f"{name}: {state}{f' ({more})' if more else ''}"))
    click.echo(f"topic: {'stored' if has_topic else 'not stored'}")


@notify.command()
@click.option("--enable/--disable", "enabled", default=None, help="Whether notifications are shown.")
@click.option("--show-device/--no-show-device", default=None, help="The name of this machine.")
@click.option("--show-project/--no-show-project", default=None, help="The name of the project.")
@click.option("--show-preview/--no-show-preview", default=None, help="The beginning of the answer.")
@click.option("--preview-length", type=click.IntRange(min=1), help="Characters of the answer.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def desktop(editor: SettingsEditor, **options: Any) -> None:
    """Show a notification on the desktop when a turn has ended.

    \b
    Examples:
      amplifier notify desktop --enable
      amplifier notify desktop --no-show-preview --preview-length 60
    """
    _write(editor, "desktop", options)


@notify.command()
@click.option("--enable/--disable", "enabled", default=None, help="Whether notifications are sent.")
@click.option("--server", metavar="URL", help="The server; https://ntfy.sh by default.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def ntfy(editor: SettingsEditor, **options: Any) -> None:
    """Send a notification to a topic of an ntfy server when a turn has ended.

    \b
    Examples:
      amplifier notify ntfy --enable
      pass show ntfy | amplifier notify ntfy --enable --server https://ntfy.example.org

    Whoever knows the topic reads what is sent, so that it is a secret: it is prompted for and not echoed, or read from
    standard input, and stored with your keys, never in the settings.
    """
    app = editor.app
    if options["enabled"]:
        store = app.key_store()
        if TOPIC not in app.environ and not any(entry.name == TOPIC for entry in store.list([TOPIC])):
            from amplifier_app_cli.commands.keys import read_secret

            store.set(TOPIC, read_secret(app, TOPIC), "file")
            app.warn(store.warnings)
            editor.inform(f"the topic is stored in {store.path} as {TOPIC}")
    _write(editor, "ntfy", options)


@notify.command()
@click.option("--desktop", "is_desktop", is_flag=True, help="Those on the desktop.")
@click.option("--ntfy", "is_ntfy", is_flag=True, help="Those by ntfy; the topic is removed too.")
@click.option("--all", "is_all", is_flag=True, help="All of them.")
@scope_options
@json_option
@report_errors
@with_json_of_edits
def reset(editor: SettingsEditor, is_desktop: bool, is_ntfy: bool, is_all: bool) -> None:
    """Remove the settings of notifications.

    \b
    Examples:
      amplifier notify reset --ntfy
      amplifier notify reset --all
    """
    wanted = [name for name, is_wanted in zip(CHANNELS, (is_desktop, is_ntfy), strict=True) if is_wanted or is_all]
    if not wanted:
        raise click.UsageError("say which: --desktop, --ntfy or --all")
    for name in wanted:
        if not editor.take_out(_WHOLE, {"channel": name}):
            editor.inform(_WHOLE.missing.format(channel=name, file=editor.file))
    store = editor.app.key_store()
    if "ntfy" in wanted and any(entry.name == TOPIC for entry in store.list([TOPIC])):
        store.remove(TOPIC)
        editor.inform(f"{TOPIC} is removed")


def _write(editor: SettingsEditor, channel: str, options: dict[str, Any]) -> None:
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        raise click.UsageError("say what to change, for example --enable; `amplifier notify status` shows what is set")
    for option, value in given.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        editor.add(_CHANNEL, value, channel=channel, option=option, shown=shown)
