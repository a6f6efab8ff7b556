"""`amplifier keys`: API keys, which are never given as arguments."""

from __future__ import annotations

import sys

import click

from amplifier_app_cli.app import App, current_app
from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.completion import KEY
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import yes_option
from amplifier_app_cli.providers.known import all_key_names
from amplifier_app_cli.ui.records import json_option, print_json, print_list
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.settings.keys import KeyNotFoundError, KeyStore, check_name


@click.group(cls=LazyGroup)
def keys() -> None:
    """Store, list and remove API keys.

    \b
    Examples:
      amplifier keys set OPENAI_API_KEY
      pass show openai | amplifier keys set OPENAI_API_KEY
      amplifier keys list
      amplifier keys remove OPENAI_API_KEY

    They are in keys.env in the program's home, readable only by you, or in the keyring of the system. A variable of the
    same name in the environment wins.
    """


@keys.command(name="set")
@click.argument("name", type=KEY)
@click.argument("more", nargs=-1, metavar="")
@click.option("--keyring", is_flag=True, help="Keep the value in the keyring of the system instead of the file.")
@json_option
@report_errors
def set_(name: str, more: tuple[str, ...], keyring: bool, as_json: bool) -> None:
    """Store the key NAME.

    \b
    Examples:
      amplifier keys set OPENAI_API_KEY
      amplifier keys set OPENAI_API_KEY --keyring < key.txt

    The value is prompted for and not echoed, or read from standard input. It is never an argument: arguments stay in
    the history of the shell, and every user of the machine can see them.
    """
    if more:
        raise click.UsageError(
            "the value of a key is never an argument, which would stay in the history of your shell: leave it out and "
            "type it when prompted, or pipe it in. Consider replacing the key that you have just typed"
        )

    app = current_app()
    check_name(name)
    store = app.key_store()
    store.set(name, read_secret(app, name), "keyring" if keyring else "file")
    app.warn(store.warnings)
    if as_json:
        print_json(
            {"name": name, "where": "keyring" if keyring else "file", "file": None if keyring else str(store.path)}
        )
    app.inform(f"{name} is stored in {'the keyring' if keyring else store.path}")
    if name in app.environ:
        app.inform(f"{name} is set in the environment too, which wins")


@keys.command(name="list")
@json_option
@report_errors
def list_(as_json: bool) -> None:
    """List the stored keys.

    \b
    Examples:
      amplifier keys list
      amplifier keys list --json

    Values are not shown, only the store of each and the last characters of long ones.
    """
    app = current_app()
    store = app.key_store()
    entries = store.list(all_key_names())
    app.warn(store.warnings)
    rows = [(entry.name, entry.where, f"…{entry.tail}" if entry.tail else "") for entry in entries]
    empty = "no keys: `amplifier keys set NAME` stores one, for example OPENAI_API_KEY"
    print_list(as_json, [entry._asdict() for entry in entries], ("NAME", "FROM", "ENDS IN"), rows, empty=empty)


@keys.command()
@click.argument("name", type=KEY)
@yes_option()
@json_option
@report_errors
def remove(name: str, is_sure: bool, as_json: bool) -> None:
    """Remove the key NAME.

    \b
    Examples:
      amplifier keys remove OPENAI_API_KEY
      amplifier keys remove OPENAI_API_KEY --yes
    """
    app = current_app()
    store = app.key_store()
    _require(app, name, store)
    app.confirm(f"Remove {name}?", is_sure, f"give --yes to remove {name}")
    store.remove(name)
    app.warn(store.warnings)
    if as_json:
        print_json({"name": name, "removed": True})
    app.inform(f"{name} is removed")
    if name in app.environ:
        app.inform(f"{name} is still set in the environment")


def read_secret(app: App, name: str) -> str:
    """Return a value that the user types, without echo, or pipes in; raises UsageError without either."""
    if app.can_ask:
        value: str = click.prompt(name, hide_input=True, err=True)
    elif sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(f"cannot ask for {name} without a terminal: pipe the value in")
    else:
        value = sys.stdin.buffer.read().decode("utf-8-sig", "surrogateescape")
    value = value.strip("\r\n \t")
    if not value:
        raise click.UsageError(f"no value for {name}: standard input is empty")
    return value


def _require(app: App, name: str, store: KeyStore) -> None:
    """Raise KeyNotFoundError unless the key is stored here."""
    names = [entry.name for entry in store.list()]
    if name in names:
        return

    check_name(name)
    hint = "it is in the environment, which this program does not change" if name in app.environ else ""
    hint = hint or (did_you_mean(name, names) if names else "no keys are stored")
    raise KeyNotFoundError(f"no key {name!r} in {store.path}: {hint}")
