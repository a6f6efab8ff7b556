"""`amplifier provider add`, `set` and `remove`: what settings say about providers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import App
from amplifier_app_cli.commands.keys import read_secret
from amplifier_app_cli.commands.settings import parse_value
from amplifier_app_cli.completion import MODEL
from amplifier_app_cli.completion import PROVIDER as PROVIDER_NAME
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.options import yes_option
from amplifier_app_cli.providers.choice import UnknownProviderError, find_entry
from amplifier_app_cli.providers.known import KNOWN, KnownProvider, is_installed, known_provider, unknown_provider
from amplifier_app_cli.providers.settings import (
    ModuleMissingError,
    ProviderEntry,
    environ_with_keys,
    provider_plan,
    require_module,
    settings_entry,
    write_entry,
)
from amplifier_app_cli.settings_editor import PROVIDER, SettingsEditor, scope_options, with_json_of_edits
from amplifier_app_cli.ui.records import json_option
from amplifier_app_cli.ui.say import complain, say
from amplifier_foundation.errors import did_you_mean
from amplifier_foundation.settings.keys import KeyStore
from amplifier_foundation.settings.scopes import Scope, SettingsError

Function = TypeVar("Function", bound=Callable[..., Any])


def _config_options(command: Function) -> Function:
    """Add the options that make up a provider's configuration, as one mapping `config`."""

    @click.option("-m", "--model", type=MODEL, help="The model to use.")
    @click.option("--priority", type=int, help="The provider with the lowest number answers.")
    @click.option("--base-url", help="Where the provider's server is.")
    @click.option("--key-from-env", metavar="NAME", help="Read the key from this variable on every run.")
    @click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Any other setting (may be repeated).")
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        model: str | None,
        priority: int | None,
        base_url: str | None,
        key_from_env: str | None,
        pairs: tuple[str, ...],
        **options: Any,
    ) -> Any:
        config = {
            "default_model": model,
            "priority": priority,
            "base_url": base_url,
            "api_key": f"${{{key_from_env}}}" if key_from_env else None,
        }
        given = {key: value for key, value in config.items() if value is not None}
        return command(*arguments, config={**given, **_parsed(pairs)}, **options)

    return wrapped  # type: ignore[return-value]


@click.command()
@click.argument("type_", required=False, metavar="[TYPE]", type=PROVIDER_NAME)
@click.option("--id", "name", help="A name, for a second provider of the same type.")
@click.option("--source", metavar="URI", help="Where the module comes from, when it is not part of the program.")
@click.option("--key-stdin", is_flag=True, help="Read the key from standard input and store it.")
@_config_options
@scope_options
@json_option
@report_errors
@with_json_of_edits
def add(
    type_: str | None,
    name: str | None,
    source: str | None,
    key_stdin: bool,
    config: dict[str, Any],
    editor: SettingsEditor,
) -> None:
    """Configure a provider.

    \b
    Examples:
      amplifier provider add
      amplifier provider add openai --model gpt-5
      amplifier provider add chat-completions --id lab --base-url http://127.0.0.1:9000/v1

    TYPE is one of `amplifier provider list`. At a terminal, missing values are prompted for.
    """
    app = editor.app
    type_ = type_ or ask_for_type(app)
    known = known_provider(type_)
    if known is None and source is None:
        raise unknown_provider(type_, "Your own module needs --source URI")
    module = known.module if known is not None else type_
    entry_name = name or module
    if settings_entry(app, entry_name, editor.scope or "user") is not None:
        raise click.UsageError(f"{entry_name} is configured already: change it with `amplifier provider set`")
    try:
        require_module(app, module, source)
    except ModuleMissingError as error:
        sys.exit(complain(exits.USAGE, str(error)))
    if known is not None:
        config = with_address(app, known, config)
        keep_key(app, known, from_stdin=key_stdin, is_given="api_key" in config)
    write_entry(editor, ProviderEntry(entry_name, module, source, config))
    app.inform(PROVIDER.added.format(name=entry_name, file=editor.file))


@click.command(name="set")
@click.argument("name", type=PROVIDER_NAME)
@click.option("--unset", "unset", multiple=True, metavar="KEY", help="Remove a setting (may be repeated).")
@_config_options
@scope_options
@json_option
@report_errors
@with_json_of_edits
def set_(name: str, unset: tuple[str, ...], config: dict[str, Any], editor: SettingsEditor) -> None:
    """Change the configuration of a provider.

    \b
    Examples:
      amplifier provider set openai --model gpt-5-mini
      amplifier provider set mock --priority 10 --project
      amplifier provider set openai --unset base_url

    NAME is its id, its module, or its short name. At a terminal, it prompts for the model if no option is given.
    """
    app = editor.app
    key, module, scope = _named(app, name)
    known = known_provider(module)
    if known is not None:
        config = _renamed(known, config)
    editor = editor if editor.scope is not None else replace(editor, scope=scope)
    if not config and not unset:
        if not app.can_ask:
            raise click.UsageError(
                "give what to change: --model, --priority, --base-url, --key-from-env, --set, --unset"
            )
        config = {"default_model": click.prompt("Model", err=True)}
    changed = write_entry(editor, ProviderEntry(key, module, None, config)) if config else False
    for field in unset:
        changed |= editor.unset((*PROVIDER.at({"name": key}), "config", field)).changed
    app.inform(f"{key} {'changed' if changed else 'is unchanged'}: {editor.file}")


@click.command()
@click.argument("name", type=PROVIDER_NAME)
@yes_option()
@scope_options
@json_option
@report_errors
@with_json_of_edits
def remove(name: str, is_sure: bool, editor: SettingsEditor) -> None:
    """Remove a provider from the settings.

    \b
    Examples:
      amplifier provider remove openai
      amplifier provider remove lab --project --yes

    Its key stays; `amplifier keys remove` removes it.
    """
    app = editor.app
    key, _, scope = _named(app, name)
    if scope is None:
        raise SettingsError(f"{key} is in the bundle, not in settings: change the bundle, or choose another provider")
    editor = editor if editor.scope is not None else replace(editor, scope=scope)
    app.confirm(f"Remove {key} from {editor.file}?", is_sure, f"give --yes to remove {key} from the settings")
    editor.remove(PROVIDER, {"name": key})


def ask_for_type(app: App) -> str:
    """Return the provider that the user picks from the installed ones; raises UsageError without a terminal."""
    if not app.can_ask:
        raise click.UsageError(f"name a provider: {', '.join(known.id for known in KNOWN)}")
    for known in KNOWN:
        say(f"  {known.id:<18}{known.title}{'' if is_installed(known.module) else ' (not installed)'}")
    usable = [known.id for known in KNOWN if is_installed(known.module)]
    choices = click.Choice([*usable, "q"])
    answer: str = click.prompt("Provider (q leaves)", type=choices, default=usable[0], show_choices=False, err=True)
    if answer == "q":
        raise click.Abort
    return answer


def with_address(app: App, known: KnownProvider, config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with the address under the key of the provider; prompts for a required one.

    Without a terminal, a message says what to set.
    """
    config = _renamed(known, config)
    variable = known.address_variable
    if not variable or known.address_key in config or environ_with_keys(app)[0].get(variable, "").strip():
        return config
    if app.can_ask:
        return {**config, known.address_key: click.prompt("Address of the server", err=True)}
    app.inform(f"{known.id} needs the address of its server: give --base-url, or set {variable}")
    return config


def _renamed(known: KnownProvider, config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with `base_url` under the name that the provider has for it."""
    return {known.address_key if key == "base_url" else key: value for key, value in config.items()}


def keep_key(app: App, known: KnownProvider, *, from_stdin: bool, is_given: bool) -> bool:
    """Make sure that a provider has its key: piped in, already set, or prompted for; return whether one was stored.

    Without a terminal, a message says what to set.
    """
    store = app.key_store()
    was_kept = False
    if from_stdin:
        if not known.variables:
            raise click.UsageError(f"{known.id} needs no key: leave out --key-stdin")
        was_kept = _keep(app, store, known.variables[0])
    for variable in () if is_given else known.missing(environ_with_keys(app)[0]):
        if app.can_ask:
            was_kept |= _keep(app, store, variable)
        else:
            app.inform(f"{variable} is not set: store it with `amplifier keys set {variable}`")
    return was_kept


def _keep(app: App, store: KeyStore, variable: str) -> bool:
    value = read_secret(app, variable)
    if store.load().get(variable) == value:
        return False
    store.set(variable, value)
    app.inform(f"{variable} is stored in {store.path}")
    return True


def _named(app: App, name: str) -> tuple[str, str, Scope | None]:
    """Return name, module and scope of the entry that the user means; None as scope of one in the bundle."""
    entries = app.settings.get("config.providers") or []
    entry = find_entry(name, entries) or find_entry(name, provider_plan(app).plan.get("providers") or [])
    if entry is None:
        names = [str(known.get("id") or known.get("module")) for known in entries]
        hint = did_you_mean(name, names) if names else "add one with `amplifier provider add`"
        raise UnknownProviderError(f"settings have no provider {name!r}: {hint}")
    key = str(entry.get("id") or entry["module"])
    found = settings_entry(app, key)
    return key, str(entry["module"]), found[0] if found is not None else None


def _parsed(pairs: tuple[str, ...]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError("--set needs KEY=VALUE")
        parsed[key] = parse_value(value)
    return parsed
